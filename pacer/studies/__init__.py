"""Many runs of the pipeline, compared in one table."""
