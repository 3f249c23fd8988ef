"""What supports each statement of a report: the findings of two texts compared, mention by mention, for case studies.

A mention of a finding is **matching** where the other text says the same of it, **reference-only** where the reference
says it and the generated report does not, and **unverified** where the generated report says it and the reference does
not. What a text says is read by the rules of commitments (:mod:`pacer.rules.extract`), polarity included: "no effusion"
against "small effusion" is reference-only on one side and unverified on the other.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Literal, NamedTuple

from pacer.anchors.vocabulary import FINDINGS, POLARITIES
from pacer.rules.extract import Mention, find_mentions

Support = Literal["matching", "reference-only", "unverified"]
Side = Literal["reference", "generated"]

#: A finding and what is said of it.
Statement = tuple[str, str]

_ALONE: dict[Side, Support] = {"reference": "reference-only", "generated": "unverified"}
_WORDS = {
    "matching": "in both reports",
    "reference-only": "in the reference only",
    "unverified": "not in the reference",
}


class Piece(NamedTuple):
    """Characters of a report that are marked alike. ``support``: None outside mentions; ``changed``: the same side's
    text of the first context does not say this; ``about``: what is said and by whom, for a tooltip."""

    text: str
    support: Support | None
    changed: bool
    about: str


def statements(report: str) -> frozenset[Statement]:
    """Every finding that a text speaks of, with the polarity; both polarities of one that it affirms and denies."""
    return frozenset((m.finding, m.polarity) for m in find_mentions(report) if m.polarity is not None)


def pieces(
    report: str, side: Side, other: Collection[Statement], first: Collection[Statement] | None = None
) -> list[Piece]:
    """Cut a report into pieces; their texts joined are the report.

    A mention takes the cue that decides its polarity along ("no evidence of" pneumothorax) unless another mention
    stands between. Where mentions share characters, one without support shows.

    Args:
        side: which text this is. other: :func:`statements` of the other side. first: of this side in the first
            context; None in that context itself.
    """
    mentions = [m for m in find_mentions(report) if m.polarity is not None]
    spans = [(*_extent(mention, mentions), mention) for mention in mentions]
    edges = sorted({0, len(report)} | {edge for start, end, _ in spans for edge in (start, end)})
    found = []
    for start, end in pairwise(edges):
        here = [m for left, right, m in spans if left <= start and end <= right]
        here.sort(key=lambda m: (m.finding, m.polarity) in other)
        if not here:
            found.append(Piece(report[start:end], None, False, ""))
            continue
        support: Support = "matching" if (here[0].finding, here[0].polarity) in other else _ALONE[side]
        changed = first is not None and any((m.finding, m.polarity) not in first for m in here)
        said = dict.fromkeys(f"{m.finding}: {m.polarity}" for m in here)
        found.append(Piece(report[start:end], support, changed, f"{', '.join(said)}; {_WORDS[support]}"))
    return found


def changes(here: Collection[Statement], first: Collection[Statement]) -> tuple[list[str], list[str]]:
    """What a text says that the first context's does not, and the reverse, in the vocabulary's order."""
    return _listed(set(here) - set(first)), _listed(set(first) - set(here))


def _listed(found: set[Statement]) -> list[str]:
    every = ((finding, polarity) for finding in FINDINGS for polarity in POLARITIES)
    return [f"{finding} ({polarity})" for finding, polarity in every if (finding, polarity) in found]


def _extent(mention: Mention, mentions: Collection[Mention]) -> tuple[int, int]:
    if mention.cue is None:
        return mention.start, mention.end
    start, end = min(mention.start, mention.cue[0]), max(mention.end, mention.cue[1])
    apart = any(start <= m.start < end and (m.start, m.end) != (mention.start, mention.end) for m in mentions)
    return (mention.start, mention.end) if apart else (start, end)
