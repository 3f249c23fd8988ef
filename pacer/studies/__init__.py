"""Many runs of the pipeline, compared in one table.

Uses reporting and the layers below it.
"""
