"""Commitments: the anchor, the rules that read it in a report, and its labelling by a language model."""
