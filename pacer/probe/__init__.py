"""The probe: copies of records with one source changed, and what the reports on them tell of a
system."""
