"""Frozen states as the stage `features` makes them: plan, shards, survey of costs.

Uses features and what lies below it.
"""
