"""Which words of a report another report has as well."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple


class Word(NamedTuple):
    """``own``: the report that it is compared with does not have this word in this place."""

    text: str
    own: bool


def compared(report: str, other: str) -> list[Word]:
    """The words of ``report``, aligned with those of ``other`` (Ratcliff and Obershelp: longest runs first)."""
    words, others = report.split(), other.split()
    shared = [False] * len(words)
    for block in SequenceMatcher(None, words, others, autojunk=False).get_matching_blocks():
        shared[block.a : block.a + block.size] = [True] * block.size
    return [Word(word, not both) for word, both in zip(words, shared, strict=True)]


def compared_with_all(report: str, others: Sequence[str]) -> list[Word]:
    """The words of ``report``; ``own``: at least one of the others lacks the word in this place."""
    found = [compared(report, other) for other in others]
    if not found:
        return [Word(word, False) for word in report.split()]
    return [Word(words[0].text, any(word.own for word in words)) for words in zip(*found, strict=True)]
