"""Scores: what they are computed from, how, and what they mean."""
