"""Commitments (anchors in the code): the rules that extract them from reports, and labelling by a
language model."""
