"""Intervals, groups, and one system against another, from ``cases.parquet``."""
