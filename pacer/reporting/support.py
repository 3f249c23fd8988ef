"""What supports each statement of a report: two texts compared, phrase by phrase, for case studies.

A phrase is a mention of a finding; or it is **longitudinal**, wording that compares with an earlier examination
(:mod:`pacer.data.wording`) and says as much as its rule and its direction. It is **matching** where the other
text says the same, **reference-only** where the reference says it and the generated report does not, and **unverified**
where the generated report says it and the reference does not. What a text says of findings is read by the rules of
commitments (:mod:`pacer.commitments.rules.extract`), polarity included: "no effusion" against "small effusion" is
reference-only on one side and unverified on the other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeVar

from pacer.commitments.rules.extract import Mention, find_mentions
from pacer.data.wording import find_wording

Support = Literal["matching", "reference-only", "unverified"]
Side = Literal["reference", "generated"]
T = TypeVar("T")

#: A finding and what is said of it; or a rule of comparison, with its direction, and :data:`LONGITUDINAL`.
Statement = tuple[str, str]
LONGITUDINAL = "longitudinal"
#: What tells the direction of wording: what is pulled back is not inserted, though both are verbs of change.
_DIRECTION = re.compile(
    "increas|decreas|reduc|improv|wors|resol|clear|progress|regress|develop|enlarg|diminish|grow|lessen|reced|subsid"
    "|evol|disappear|appeared|declin|redistribut|reaccumulat|expan|migrat|remov|withdraw|retract|advanc|pull|reposition"
    "|exchang|extubat|intubat|drain|evacuat|insert|replac|plac|larg|small|bigg|great|more|less|better|no new|new|now"
    "|no longer"
)

_ALONE: dict[Side, Support] = {"reference": "reference-only", "generated": "unverified"}
_WORDS = {
    "matching": "in both reports",
    "reference-only": "in the reference only",
    "unverified": "not in the reference",
}


class Piece(NamedTuple):
    """Characters of a report that are marked alike. ``support``: None outside phrases; ``changed``: the same side's
    text of the first context does not say this; ``about``: what is said and by whom, for a tooltip."""

    text: str
    support: Support | None = None
    changed: bool = False
    about: str = ""
    longitudinal: bool = False

    @property
    def classes(self) -> str:
        """Those of its mark in ``style.css``."""
        named = {"longitudinal": self.longitudinal, "changed": self.changed}
        return " ".join([self.support or "", *(name for name, given in named.items() if given)])


#: Marks and what they say.
LEGEND = (
    (Piece("matching", "matching"), "both say it"),
    (Piece("reference-only", "reference-only"), "the generated report does not say it"),
    (Piece("unverified", "unverified"), "the reference does not say it"),
    (Piece("in italics", "matching", longitudinal=True), "compares with an earlier examination"),
    (Piece("in bold", "matching", changed=True), "differs from the first context"),
)


def statements(report: str) -> frozenset[Statement]:
    """Every finding that a text speaks of, with the polarity, both polarities of one that it affirms and denies; and
    the rules of comparison that fire in it."""
    said = {(m.finding, m.polarity) for m in find_mentions(report) if m.polarity is not None}
    return frozenset(said | {statement for _, _, statement in _wording(report)})


def _wording(report: str) -> list[tuple[int, int, Statement]]:
    """Wording of comparison: where it stands, and what it says."""
    found = []
    for start, end, rule in find_wording(report):
        direction = _DIRECTION.search(report[start:end].lower())
        found.append((start, end, (f"{rule} ({direction[0]})" if direction else rule, LONGITUDINAL)))
    return found


def pieces(
    report: str, side: Side, other: Collection[Statement], first: Collection[Statement] | None = None
) -> list[Piece]:
    """Cut a report into pieces; their texts joined are the report.

    A mention takes the cue that decides its polarity along ("no evidence of" pneumothorax) unless another mention
    stands between. Where phrases share characters, one without support shows.

    Args:
        side: which text this is. other: :func:`statements` of the other side. first: of this side in the first
            context; None in that context itself.
    """
    mentions = [m for m in find_mentions(report) if m.polarity is not None]
    spans = [(*_extent(m, mentions), (m.finding, str(m.polarity))) for m in mentions]
    spans += _wording(report)
    found = []
    for text, here in cut(report, spans):
        here.sort(key=lambda statement: statement in other)
        if not here:
            found.append(Piece(text))
            continue
        support: Support = "matching" if here[0] in other else _ALONE[side]
        changed = first is not None and any(statement not in first for statement in here)
        said = ", ".join(dict.fromkeys(": ".join(statement) for statement in here))
        longitudinal = any(kind == LONGITUDINAL for _, kind in here)
        found.append(Piece(text, support, changed, f"{said}; {_WORDS[support]}", longitudinal))
    return found


def cut(text: str, spans: Sequence[tuple[int, int, T]]) -> Iterator[tuple[str, list[T]]]:
    """The pieces of a text between the ends of spans, each with what the spans around it hold."""
    edges = sorted({0, len(text)} | {edge for start, end, _ in spans for edge in (start, end)})
    for start, end in pairwise(edges):
        yield text[start:end], [held for left, right, held in spans if left <= start and end <= right]


def _extent(mention: Mention, mentions: Collection[Mention]) -> tuple[int, int]:
    if mention.cue is None:
        return mention.start, mention.end
    start, end = min(mention.start, mention.cue[0]), max(mention.end, mention.cue[1])
    apart = any(start <= m.start < end and (m.start, m.end) != (mention.start, mention.end) for m in mentions)
    return (mention.start, mention.end) if apart else (start, end)
