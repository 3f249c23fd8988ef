"""Many runs of the pipeline, compared in one table, also with the published numbers."""
