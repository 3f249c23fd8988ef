"""Many runs of the pipeline, set side by side in one table.

Uses reporting and what lies below it.
"""
