"""The list predictor: linear maps from tokens and patches to probabilities of findings and
sides, and their fitting."""
