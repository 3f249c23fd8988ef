"""Reports from a trained model: beams, controls, extraction.

Uses model, features, commitments and what lies below them.
"""
