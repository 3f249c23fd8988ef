"""Definitions of all scores of predictions against references; intervals, groups, and comparison of
two systems."""
