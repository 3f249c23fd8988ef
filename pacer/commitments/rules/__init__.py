"""Commitments by rules, from the text of a report."""

from pacer.commitments.rules.extract import extract_anchor

__all__ = ["extract_anchor"]
