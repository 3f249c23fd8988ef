"""The three training phases: trajectories, losses, batches and the loop."""
