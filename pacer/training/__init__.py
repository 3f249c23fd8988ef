"""The three phases: trajectories, losses, batches, the loop.

Uses model, features, commitments and what lies below them.
"""
