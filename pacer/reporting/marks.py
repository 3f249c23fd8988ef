"""Marks in texts: a report is cut into spans by whether another text makes the same statement.

A marked phrase is a mention of a finding, or it is **longitudinal**: wording that compares with an
earlier examination (:mod:`pacer.data.wording`). That is identified by the findings of its sentence
and their course, else by its rule and direction. A phrase is **matching** if the other text says
the same. It is **reference-only** if a reference says it and the generated report does not. It is
**unverified** if a generated report says it and the reference, or the preceding commitment, does
not. It is **opposite** if one text affirms the finding and the other denies it, and **less
certain** if one of them leaves it uncertain. It has a **wrong side** or an **other severity** if
both affirm the finding or leave it uncertain, with different sides (by all that each says of it) or
severities (of the phrase's sentence, if it has any, against all that the other text says). It
**contradicts** where the report affirms what its own commitment denies, or the reverse, or has
another side. The rules of commitments (:mod:`pacer.commitments.rules.extract`) read the findings
with their polarity, and :mod:`pacer.commitments.attributes` their sides, severities and courses.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from pacer.commitments.anchor import POLARITIES, VALUES, Anchor, Attributes, words
from pacer.commitments.attributes import read_attributes
from pacer.commitments.rules.extract import Mention, extract_anchor, find_mentions
from pacer.data.wording import find_wording

#: Kind of text that a text is compared with.
Other = Literal["reference", "generated", "commitment"]

#: A finding and its polarity, side or severity; or a rule of comparison with its direction, and
#: :data:`LONGITUDINAL`.
Statement = tuple[str, str]
LONGITUDINAL = "longitudinal"
#: The words of a kind of description that marks compare.
_DESCRIPTIONS = {"side": ("left", "right", "bilateral"), "severity": VALUES["severity"]}
#: Rules of wording that names an earlier study, and says nothing of a finding.
_OF_STUDIES = ("comparison", "prior study", "since", "interval")
#: The end of a sentence of a cleaned or raw report.
_SENTENCE = re.compile(r"[.;](?=\s|$)|\n")
_OPPOSITE = {"positive": "negative", "negative": "positive"}
#: Words that give the direction of a change: "pulled back" and "inserted" are both changes, but not
#: the same.
_DIRECTION = re.compile(
    "increas|decreas|reduc|improv|wors|resol|clear|progress|regress|develop|enlarg|diminish|grow|lessen|reced|subsid"
    "|evol|disappear|appeared|declin|redistribut|reaccumulat|expan|migrat|remov|withdraw|retract|advanc|pull|reposition"
    "|exchang|extubat|intubat|drain|evacuat|insert|replac|plac|larg|small|bigg|great|more|less"
    "|better|no new|new|now|no longer"
)

#: The mark of an unsupported phrase, and the tooltips with and without support.
_COMPARED_WITH: Mapping[Other, tuple[str, str, str]] = {
    "generated": ("reference-only", "in both reports", "in the reference only"),
    "reference": ("unverified", "in both reports", "not in the reference"),
    "commitment": ("unverified", "in the commitment", "not in the commitment"),
}


class Span(NamedTuple):
    """Characters of a report with the same marks, which are classes of ``style.css``; ``tooltip``:
    what is said, and by which texts. A phrase that another text is compared with has one of
    ``matching``, ``reference-only``, ``unverified``, ``opposite``, ``wrong-side``, ``less-certain``
    and ``other-severity``. Further marks: ``longitudinal``; ``contradicts`` (the report's own
    commitment states the opposite, or another side); ``changed`` (the first context's text does not
    say this)."""

    text: str
    marks: Sequence[str] = ()
    tooltip: str = ""


def statements(report: str) -> frozenset[Statement]:
    """Return a text's findings with their polarities, sides and severities, and the rules of
    comparison that match."""
    findings = {(m.finding, m.polarity) for m in find_mentions(report) if m.polarity is not None}
    return frozenset(
        findings
        | _described(read_attributes(report))
        | {statement for _, _, statement in _wording(report)}
    )


def committed(commitment: Anchor) -> frozenset[Statement]:
    """Return the findings of a commitment with their polarities, sides and severities."""
    findings = {(finding, name) for name in POLARITIES for finding in getattr(commitment, name)}
    return frozenset(findings | _described(commitment.attributes))


def _described(attributes: Mapping[str, Attributes]) -> set[Statement]:
    """Return each finding with each word for its side and severity, of :data:`_DESCRIPTIONS`."""
    return {
        (name, word)
        for name, known in attributes.items()
        for word in words(known.only(_DESCRIPTIONS))
    }


def _sentence(report: str, at: int) -> str:
    """Return the sentence with the character ``at``."""
    ends = [end.end() for end in _SENTENCE.finditer(report)]
    place = bisect_right(ends, at)
    return report[ends[place - 1] if place else 0 : ends[place] if place < len(ends) else None]


def _described_near(described: Collection[Statement], sentence: str) -> set[Statement]:
    """Return the descriptions of a report, with the severities of one sentence where that has
    any."""
    severities = {
        (name, word) for name, known in read_attributes(sentence).items() for word in known.severity
    }
    named = {name for name, _ in severities}
    return severities | {
        (name, word)
        for name, word in described
        if name not in named or word in _DESCRIPTIONS["side"]
    }


def _wording(report: str) -> list[tuple[int, int, Statement]]:
    """Return the start, end and statements of each wording of comparison: the course of each
    finding in its sentence; for a finding without one, and a sentence without a finding, the rule
    with its direction."""
    phrases = []
    for start, end, rule in find_wording(report):
        sentence = _sentence(report, start)
        direction = _DIRECTION.search(report[start:end].lower())
        compared = f"{rule} ({direction[0]})" if direction else rule
        known = read_attributes(sentence)
        findings = dict.fromkeys(
            m.finding for m in find_mentions(sentence) if m.polarity is not None
        )
        for finding in findings if findings and rule not in _OF_STUDIES else ("",):
            courses = sorted(known[finding].course) if finding in known else []
            says = " and ".join(courses) or compared
            phrases.append((start, end, (f"{finding} {says}".strip(), LONGITUDINAL)))
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

    A mention includes the cue that decides its polarity ("no evidence of" pneumothorax), unless
    another mention lies between them. If phrases overlap, one without support determines the mark.
    A commitment makes no comparisons, so wording of comparison is not checked against it.
    ``other``: statements of the text that ``compared_with`` names; None if there is none, or for a
    commitment. ``first``: :func:`statements` of the report in the first context; None in that
    context itself. ``commitment``: the report's own. ``named``: statements of several texts that
    make up ``other``, by name; the tooltip says which of them match.
    """
    mentions = [m for m in find_mentions(report) if m.polarity is not None]
    phrases = [(*_extent(m, mentions), (m.finding, str(m.polarity))) for m in mentions] + _wording(
        report
    )
    unsupported, with_support, without_support = _COMPARED_WITH[compared_with]
    tooltips = {
        "matching": with_support,
        unsupported: without_support,
        "opposite": "the other report says the opposite",
        "less-certain": "uncertain in one report only",
        "changed": "differs from the first context",
    }
    read, listed = extract_anchor(report), commitment or Anchor()
    opposed, own = (
        {(name, read.polarity(name)) for name in listed.contradicted(read)},
        committed(listed),
    )
    if compared_with == "commitment":
        other, own = None if commitment is None else own, frozenset()
    described, marked = _described(read_attributes(report)), []
    edges = sorted({0, len(report)} | {edge for start, end, _ in phrases for edge in (start, end)})
    for start, end in pairwise(edges):
        here = [statement for left, right, statement in phrases if left <= start and end <= right]
        near = _described_near(described, _sentence(report, start)) if here else set()
        known = {statement for statement in near if statement[0] in {name for name, _ in here}}
        compared = [s for s in here if compared_with != "commitment" or s[1] != LONGITUDINAL]
        checked = bool(compared) and other is not None
        mark, difference = (
            _compare(compared, near, other or (), compared_with) if checked else ("", "")
        )
        against = "" if opposed.isdisjoint(here) else "the commitment says the opposite"
        against = against or _difference("side", here, described, own, "commitment")
        applies = {
            mark or unsupported: checked,
            LONGITUDINAL: any(kind == LONGITUDINAL for _, kind in here),
            "contradicts": bool(against),
            "changed": first is not None and not {*here, *known} <= {*first},
        }
        marks = [mark for mark, holds in applies.items() if holds]
        about = [", ".join(dict.fromkeys(": ".join(statement) for statement in here))]
        meanings = tooltips | {
            "wrong-side": difference,
            "other-severity": difference,
            "contradicts": against,
        }
        about += [meanings[mark] for mark in marks if mark in meanings]
        if named and checked:
            marks_by_text = {
                name: _compare(compared, near, others, "reference")
                for name, others in named.items()
            }
            matching = sorted(
                name
                for name, (mark, _) in marks_by_text.items()
                if mark in ("matching", "other-severity")
            )
            about.append(f"said by {' and '.join(matching) or 'none'}")
        marked.append(Span(report[start:end], marks, "; ".join(about)))
    return marked


def _compare(
    phrase: Collection[Statement],
    described: Collection[Statement],
    other: Collection[Statement],
    compared_with: Other,
) -> tuple[str, str]:
    """Return the mark of a phrase that is compared with another text, empty if that text does not
    support it, and what is different about its side or severity."""
    against_list = compared_with == "commitment"
    if not against_list and any(
        (name, _OPPOSITE.get(kind, "")) in other for name, kind in set(phrase).difference(other)
    ):
        return "opposite", ""
    side, severity = (
        _difference(kind, phrase, described, other, compared_with) for kind in _DESCRIPTIONS
    )
    if side:
        return "wrong-side", "; ".join(filter(None, (side, severity)))
    if not all(statement in other for statement in phrase):
        polarities = [
            {kind for named, kind in other if named == name}.intersection(POLARITIES)
            for name, _ in phrase
        ]
        return "less-certain" if all(polarities) and not against_list else "", ""
    return ("other-severity", severity) if severity else ("matching", "")


def _difference(
    kind: str,
    phrase: Collection[Statement],
    described: Collection[Statement],
    other: Collection[Statement],
    compared_with: Other,
) -> str:
    """Say which sides or severities another text has of findings that a phrase does not deny, where
    none of them is the report's; empty: there is no such finding."""
    differences, text = [], "generated report" if compared_with == "generated" else compared_with
    for finding in sorted({finding for finding, polarity in phrase if polarity != "negative"}):
        here, there = (
            sorted(
                word for name, word in statements if name == finding and word in _DESCRIPTIONS[kind]
            )
            for statements in (described, other)
        )
        if here and there and not {*here} & {*there}:
            differences.append(
                f"{kind}: {' and '.join(here)} here, {' and '.join(there)} in the {text}"
            )
    return "; ".join(differences)


def _extent(mention: Mention, mentions: Collection[Mention]) -> tuple[int, int]:
    """Return where a mention begins and ends, including its cue."""
    if mention.cue is None:
        return mention.start, mention.end
    start, end = min(mention.start, mention.cue[0]), max(mention.end, mention.cue[1])
    is_separate = any(
        start <= m.start < end and (m.start, m.end) != (mention.start, mention.end)
        for m in mentions
    )
    return (mention.start, mention.end) if is_separate else (start, end)
