"""Reports from a trained model: beam search, control inputs, report extraction.

Uses model, features, commitments and what lies below them.
"""
