"""Studies: many runs of the pipeline, set side by side in one table."""
