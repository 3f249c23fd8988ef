"""Which words of a report another report has as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from pacer.core.contexts import Context
from pacer.serving.case import Result


class Word(NamedTuple):
    """``own``: a report that it is compared with does not have this word in this place."""

    text: str
    own: bool


def compared(report: str, others: Sequence[str]) -> list[Word]:
    """The words of ``report``, aligned with those of each other report (Ratcliff and Obershelp: longest runs first);
    ``own``: at least one of them lacks the word in this place."""
    words = report.split()
    own = [False] * len(words)
    for other in others:
        at = 0
        for block in SequenceMatcher(None, words, other.split(), autojunk=False).get_matching_blocks():
            own[at : block.a] = [True] * (block.a - at)
            at = block.a + block.size
    return [Word(*pair) for pair in zip(words, own, strict=True)]


def compared_contexts(results: Mapping[Context, Result]) -> dict[Context, list[Word]]:
    """The first report against all others, and each of these against the first."""
    first, *others = results.values()
    words = {first.context: compared(first.report, [other.report for other in others])}
    return words | {other.context: compared(other.report, [first.report]) for other in others}
