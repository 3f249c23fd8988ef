"""The three phases: trajectories, losses, batches, the loop.

Uses model, features, anchors and what lies below them.
"""
