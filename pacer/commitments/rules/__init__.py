"""Rule-based extraction of commitments from report text."""

from pacer.commitments.rules.extract import extract_anchor

__all__ = ["extract_anchor"]
