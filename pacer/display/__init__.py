"""Numbers, tables and lines in the form that audits, files, terminals, notebooks and pages
share."""
