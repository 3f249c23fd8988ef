"""Reading and cleaning of report text."""
