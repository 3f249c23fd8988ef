"""Findings and attributes read from tokens and patches: linear maps and their fitting."""
