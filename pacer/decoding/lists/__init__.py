"""Probabilities of findings and attributes, from tokens and patches: linear maps and their
fitting."""
