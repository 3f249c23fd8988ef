"""Work around the pipeline: tests of systems and metrics, tables of experiments, baselines."""
