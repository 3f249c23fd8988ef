"""The fixed vocabulary of commitments (paper, appendix "Preserved Commitment-Labeling Prompt") and its names."""

from __future__ import annotations

import re

from pacer.data.findings import FINDINGS

__all__ = ["FINDINGS", "MAX_PER_FIELD", "POLARITIES", "normalize_finding"]

#: Findings serialised in one field at most (paper, appendix "Commitment supervision").
MAX_PER_FIELD = 8

#: The fields of a commitment, in the order in which they are written.
POLARITIES: tuple[str, ...] = ("positive", "negative", "uncertain")


def _spellings(finding: str) -> set[str]:
    """A finding in singular and plural."""
    forms = {finding, f"{finding}s", finding.removesuffix("s")}
    if finding.endswith("y"):
        forms.add(f"{finding[:-1]}ies")
    if finding.endswith("is"):
        forms.add(f"{finding[:-2]}es")
    return forms


_BY_SPELLING = {spelling: finding for finding in FINDINGS for spelling in _spellings(finding)}


def normalize_finding(name: str) -> str | None:
    """The vocabulary's name for ``name``, whatever its case, number and separators; None when it has none.

    >>> normalize_finding(" Pleural_Effusions ")
    'pleural effusion'
    """
    return _BY_SPELLING.get(re.sub(r"[\s_-]+", " ", name).strip(" .").lower())
