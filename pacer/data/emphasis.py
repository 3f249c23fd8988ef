"""Emphasis as released (``new_scores``): one number per token of ``<s> report </s>``, the same within a sentence."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

_END = re.compile(r" \.(?= |$)")


def sentence_ends(report: str) -> list[int]:
    """Return the end of each sentence of a cleaned report: after its ``" ."``; for the last, the end of the text.

    The blank between two sentences belongs to the second, so sentences cover the report without gaps.
    """
    ends = [match.end() for match in _END.finditer(report)]
    return ends if ends and ends[-1] == len(report) else [*ends, len(report)]


def token_marks(ends: Sequence[int], marked: Sequence[bool], token_ends: Sequence[int]) -> list[float]:
    """Return 1.0 for every token whose last character is in a marked sentence, else 0.0; BOS and EOS are 0.0.

    Args:
        ends: ends of the sentences (:func:`sentence_ends`). marked: one value per sentence. token_ends: the end of each
            token of the report, ascending.
    """
    sentences = [min(bisect_left(ends, end), len(ends) - 1) for end in token_ends]
    return [0.0, *(float(marked[sentence]) for sentence in sentences), 0.0]
