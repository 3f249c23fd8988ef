"""Asking the labelling model: requests, cache, budget.

Uses `labelling.answers`, `labelling.sample`, rules and what lies below them.
"""
