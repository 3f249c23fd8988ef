"""Intervals, groups and comparison of two systems, from ``cases.parquet``."""
