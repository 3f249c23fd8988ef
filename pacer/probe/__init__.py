"""The probe: copies of records with one source changed, and a system's use of the sources, measured
by its reports on them."""
