"""The three training phases: trajectories, losses, batches and the loop.

Uses model, features, commitments and what lies below them.
"""
