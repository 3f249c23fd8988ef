"""The probe: measures whether a system uses its sources, from its reports on copies of records with
one source changed."""
