"""Commitments: the anchor, rules that extract it from a report, and labelling by a language
model."""
