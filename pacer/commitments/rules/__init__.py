"""Rule-based extraction of commitments from report text."""

from pacer.commitments.rules.extract import extract_anchor
from pacer.commitments.rules.paper import extract_paper_anchor

__all__ = ["EXTRACTORS", "extract_anchor"]

#: The choices of ``anchors.rules``.
EXTRACTORS = {"careful": extract_anchor, "paper": extract_paper_anchor}
