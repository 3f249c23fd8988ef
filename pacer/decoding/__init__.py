"""Reports from a trained model: beams, controls, extraction.

Uses model, features, anchors and what lies below them.
"""
