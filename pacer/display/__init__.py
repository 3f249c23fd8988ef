"""Numbers and tables in the form that audits, files, terminals, notebooks and pages share."""
