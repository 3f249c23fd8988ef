"""Frozen models on disk: where they lie, and whether they are still what they were.

Uses core.
"""
