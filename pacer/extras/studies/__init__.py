"""Tables of experiments: many runs of the pipeline, also beside the published numbers."""
