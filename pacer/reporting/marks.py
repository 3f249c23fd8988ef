"""Marks in texts: a report is cut into spans by whether another text makes the same statement.

A marked phrase is a mention of a finding, or it is **longitudinal**: wording that compares with an earlier examination
(:mod:`pacer.data.wording`), identified by its rule and its direction. A phrase is **matching** if the other text says
the same. It is **reference-only** if a reference says it and the generated report does not. It is **unverified** if a
generated report says it and the reference, or the preceding commitment, does not. It is **opposite** if one text
affirms the finding and the other denies it. It has a **wrong side** if both affirm the finding or leave it uncertain,
on different sides, by all that each says of it. It **contradicts** where the report affirms what its own commitment
denies, or the reverse, or has another side. The rules of commitments (:mod:`pacer.commitments.rules.extract`) read the
findings with their polarity, and :mod:`pacer.commitments.attributes` their sides.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from pacer.commitments.anchor import POLARITIES, Anchor, Attributes, words
from pacer.commitments.attributes import read_attributes
from pacer.commitments.rules.extract import Mention, extract_anchor, find_mentions
from pacer.data.wording import find_wording

#: Kind of text that a text is compared with.
Other = Literal["reference", "generated", "commitment"]

#: A finding and its polarity, or its side; or a rule of comparison with its direction, and :data:`LONGITUDINAL`.
Statement = tuple[str, str]
LONGITUDINAL = "longitudinal"
_SIDES = ("left", "right", "bilateral")
_OPPOSITE = {"positive": "negative", "negative": "positive"}
#: Words that give the direction of a change: "pulled back" and "inserted" are both changes, but not the same.
_DIRECTION = re.compile(
    "increas|decreas|reduc|improv|wors|resol|clear|progress|regress|develop|enlarg|diminish|grow|lessen|reced|subsid"
    "|evol|disappear|appeared|declin|redistribut|reaccumulat|expan|migrat|remov|withdraw|retract|advanc|pull|reposition"
    "|exchang|extubat|intubat|drain|evacuat|insert|replac|plac|larg|small|bigg|great|more|less|better|no new|new|now"
    "|no longer"
)

#: The mark of an unsupported phrase, and the tooltips with and without support.
_COMPARED_WITH: Mapping[Other, tuple[str, str, str]] = {
    "generated": ("reference-only", "in both reports", "in the reference only"),
    "reference": ("unverified", "in both reports", "not in the reference"),
    "commitment": ("unverified", "in the commitment", "not in the commitment"),
}


class Span(NamedTuple):
    """Characters of a report with the same marks, which are classes of ``style.css``; ``tooltip``: what is said, and by
    which texts. Of ``matching``, ``reference-only``, ``unverified``, ``opposite`` and ``wrong-side`` there is one on a
    phrase that another text is compared with. Further marks: ``longitudinal``; ``contradicts`` (the report's own
    commitment states the opposite, or another side); ``changed`` (the first context's text does not say this)."""

    text: str
    marks: Sequence[str] = ()
    tooltip: str = ""


def statements(report: str) -> frozenset[Statement]:
    """Return every finding in a text with its polarity (both, if it is affirmed and denied), and with its side, and the
    rules of comparison that match."""
    findings = {(m.finding, m.polarity) for m in find_mentions(report) if m.polarity is not None}
    return frozenset(findings | _sides(read_attributes(report)) | {statement for _, _, statement in _wording(report)})


def committed(commitment: Anchor) -> frozenset[Statement]:
    """Return the findings of a commitment with their polarities, and with their sides."""
    findings = {(finding, name) for name in POLARITIES for finding in getattr(commitment, name)}
    return frozenset(findings | _sides(commitment.attributes))


def _sides(attributes: Mapping[str, Attributes]) -> set[Statement]:
    """Return the findings that have a side with it, a value of :data:`_SIDES`."""
    return {(finding, words(known.only(["side"]))[0]) for finding, known in attributes.items() if known.side}


def _wording(report: str) -> list[tuple[int, int, Statement]]:
    """Return the start, end and statement of each wording of comparison."""
    phrases = []
    for start, end, rule in find_wording(report):
        direction = _DIRECTION.search(report[start:end].lower())
        phrases.append((start, end, (f"{rule} ({direction[0]})" if direction else rule, LONGITUDINAL)))
    return phrases


def spans(
    report: str,
    compared_with: Other,
    other: Collection[Statement] | None,
    first: Collection[Statement] | None = None,
    commitment: Anchor | None = None,
    named: Mapping[str, frozenset[Statement]] | None = None,
) -> list[Span]:
    """Cut a report into spans, which joined give the report.

    A mention includes the cue that decides its polarity ("no evidence of" pneumothorax), unless another mention lies
    between them. If phrases overlap, one without support determines the mark. A commitment makes no comparisons, so
    wording of comparison is not checked against it.

    Args:
        other: statements of the text that ``compared_with`` names; None if there is no such text, or for a commitment.
        first: :func:`statements` of the report in the first context; None in that context itself.
        commitment: the report's own.
        named: statements of several texts that make up ``other``, by name; the tooltip says which of them match.
    """
    mentions = [m for m in find_mentions(report) if m.polarity is not None]
    phrases = [(*_extent(m, mentions), (m.finding, str(m.polarity))) for m in mentions] + _wording(report)
    unsupported, with_support, without_support = _COMPARED_WITH[compared_with]
    tooltips = {
        "matching": with_support,
        unsupported: without_support,
        "opposite": "the other report says the opposite",
        "changed": "differs from the first context",
    }
    read, listed = extract_anchor(report), commitment or Anchor()
    opposed, own = {(name, read.polarity(name)) for name in listed.contradicted(read)}, committed(listed)
    if compared_with == "commitment":
        other, own = None if commitment is None else own, frozenset()
    sides, marked = dict(_sides(read_attributes(report))), []
    edges = sorted({0, len(report)} | {edge for start, end, _ in phrases for edge in (start, end)})
    for start, end in pairwise(edges):
        here = [statement for left, right, statement in phrases if left <= start and end <= right]
        sided = {(finding, sides[finding]) for finding, _ in here if finding in sides}
        compared = [s for s in here if compared_with != "commitment" or s[1] != LONGITUDINAL]
        checked = bool(compared) and other is not None
        supported = checked and all(statement in (other or ()) for statement in compared)
        denied = compared_with != "commitment" and checked and not supported
        denied = denied and any((name, _OPPOSITE.get(kind, "")) in (other or ()) for name, kind in compared)
        wrong = "" if denied else _apart(compared, sides, other or (), compared_with)
        against = "" if opposed.isdisjoint(here) else "the commitment says the opposite"
        against = against or _apart(here, sides, own, "commitment")
        applies = {
            "matching": supported and not wrong,
            unsupported: checked and not supported and not denied and not wrong,
            "opposite": denied,
            "wrong-side": bool(wrong),
            LONGITUDINAL: any(kind == LONGITUDINAL for _, kind in here),
            "contradicts": bool(against),
            "changed": first is not None and not {*here, *sided} <= {*first},
        }
        marks = [mark for mark, holds in applies.items() if holds]
        about = [", ".join(dict.fromkeys(": ".join(statement) for statement in here))]
        told = tooltips | {"wrong-side": wrong, "contradicts": against}
        about += [told[mark] for mark in marks if mark in told]
        if named and checked:
            agree = {name: others for name, others in named.items() if not _apart(compared, sides, others)}
            matching = sorted(name for name, others in agree.items() if others.issuperset(compared))
            about.append(f"said by {' and '.join(matching) or 'none'}")
        marked.append(Span(report[start:end], marks, "; ".join(about)))
    return marked


def _apart(
    phrase: Collection[Statement], sides: Mapping[str, str], other: Collection[Statement], name: Other = "reference"
) -> str:
    """Say on which sides another text has findings that a phrase affirms, unless one is the report's; empty: none."""
    said, there = [], "generated report" if name == "generated" else name
    for finding in sorted({finding for finding, kind in phrase if kind != "negative" and finding in sides}):
        others = sorted(kind for named, kind in other if named == finding and kind in _SIDES)
        if others and sides[finding] not in others:
            said.append(f"side: {sides[finding]} here, {' and '.join(others)} in the {there}")
    return "; ".join(said)


def _extent(mention: Mention, mentions: Collection[Mention]) -> tuple[int, int]:
    """Return where a mention begins and ends, including its cue."""
    if mention.cue is None:
        return mention.start, mention.end
    start, end = min(mention.start, mention.cue[0]), max(mention.end, mention.cue[1])
    apart = any(start <= m.start < end and (m.start, m.end) != (mention.start, mention.end) for m in mentions)
    return (mention.start, mention.end) if apart else (start, end)
