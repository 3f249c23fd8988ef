"""Intervals, groups, and one system against another.

Uses metrics.
"""
