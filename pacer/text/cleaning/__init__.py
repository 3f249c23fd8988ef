"""Cleaning of reports, and wording in them: comparisons with an earlier examination, repeats."""
