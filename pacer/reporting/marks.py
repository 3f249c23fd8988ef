"""Marks in texts: a report is cut into spans by whether another text makes the same statement.

A marked phrase is a mention of a finding, or it is **longitudinal**: wording that compares with an
earlier examination (:mod:`pacer.data.wording`), identified by the findings of its sentence and
their course, else by its rule and direction. Mentions have the marks of the verdict on their
finding (:mod:`pacer.metrics.ledger`): **matching** if it is correct, or only something is left out;
**wrong side** or **other severity** if the texts contradict each other there; **less certain** if
only one of them is uncertain; **opposite**; **reference-only** in a reference, and **unverified**
in a generated report, if the other text does not state it. A denial of what the same text affirms
elsewhere, as of one side, has no mark. Beside its commitment a report **contradicts** where it
affirms what that denies, or the reverse, or has another side.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.commitments.anchor import Anchor, Attributes, words
from pacer.commitments.attributes import read_attributes
from pacer.commitments.rules.extract import Mention, find_mentions
from pacer.data.wording import find_wording
from pacer.metrics.ledger import compared, listed_findings, read_findings

#: Kind of text that a text is compared with.
Other = Literal["reference", "generated", "commitment"]
#: What the ledger says of a finding in two texts.
Row = Mapping[str, Any]
LONGITUDINAL = "longitudinal"
#: The marks of phrases that another text states, from the least to the most; where phrases overlap,
#: the last one holds. One that it does not state stands before ``wrong-side``.
_MARKS = ("matching", "other-severity", "less-certain", "", "wrong-side", "opposite")
#: Rules of wording that names an earlier study, and says nothing of a finding.
_OF_STUDIES = ("comparison", "prior study", "since", "interval")
#: The end of a sentence of a cleaned or raw report.
_SENTENCE = re.compile(r"[.;](?=\s|$)|\n")
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


class Said(NamedTuple):
    """What a text, or a list, says: its ``findings``, and the meanings of its wording of
    comparison."""

    findings: pl.DataFrame
    wording: frozenset[str] = frozenset()


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


def said(text: str) -> Said:
    """Return what a text says."""
    return Said(read_findings([text]), frozenset(meaning for _, _, meaning in _wording(text)))


def said_in(commitment: Anchor) -> Said:
    """Return what a commitment says, which makes no comparisons."""
    return Said(listed_findings([commitment]))


def verdicts(reference: Said, report: Said) -> dict[str, Row]:
    """Return the verdict on each finding that either side states."""
    rows = compared(reference.findings, report.findings)
    return {row["finding"]: row for row in rows.iter_rows(named=True)}


def _sentence(report: str, at: int) -> str:
    """Return the sentence with the character ``at``."""
    ends = [end.end() for end in _SENTENCE.finditer(report)]
    place = bisect_right(ends, at)
    return report[ends[place - 1] if place else 0 : ends[place] if place < len(ends) else None]


def _wording(report: str) -> list[tuple[int, int, str]]:
    """Return the start, end and meanings of each wording of comparison: the course of each
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
            phrases.append((start, end, f"{finding} {says}".strip()))
    return phrases


def spans(
    report: str,
    compared_with: Other,
    others: Mapping[str, Said],
    first: Said | None = None,
    commitment: Anchor | None = None,
) -> list[Span]:
    """Cut a report into spans, which joined give the report.

    A mention includes the cue that decides its polarity ("no evidence of" pneumothorax), unless
    another mention lies between them. If phrases overlap, one without support determines the mark.
    A commitment makes no comparisons, so wording of comparison is not checked against it.
    ``others``: what the texts say that ``compared_with`` names; of several, by name, the one that
    agrees best determines the mark, and the tooltip says which match; none: nothing is checked.
    ``first``: what the report in the first context says; None in that context itself.
    ``commitment``: the report's own.
    """
    own = said(report)
    unsupported, with_support, without_support = _COMPARED_WITH[compared_with]
    is_reference, text = compared_with == "generated", "generated report"
    text = text if is_reference else compared_with
    rows = {
        name: verdicts(own, other) if is_reference else verdicts(other, own)
        for name, other in others.items()
    }
    committed = {} if commitment is None else verdicts(said_in(commitment), own)
    before = (
        {} if first is None else {r["finding"]: r for r in first.findings.iter_rows(named=True)}
    )
    now = {row["finding"]: row for row in own.findings.iter_rows(named=True)}
    mentions = [
        m
        for m in find_mentions(report)
        if m.finding in now and m.polarity in (now[m.finding]["state"], "positive", "uncertain")
    ]
    phrases = [(*_extent(m, mentions), m.finding, str(m.polarity)) for m in mentions]
    phrases += [(*phrase, LONGITUDINAL) for phrase in _wording(report)]
    edges = sorted({0, len(report)} | {edge for start, end, *_ in phrases for edge in (start, end)})
    marked = []

    def mark_in(name: str, here: Collection[tuple[str, str]]) -> tuple[str, str]:
        """Return the mark of a piece by one of the other texts, and how that differs."""
        found = [
            (
                ("matching" if what in others[name].wording else "", "")
                if kind == LONGITUDINAL
                else _mark(rows[name].get(what), text, is_reference)
            )
            for what, kind in here
        ]
        mark = max((mark for mark, _ in found), key=_MARKS.index)
        return mark, "; ".join(dict.fromkeys(filter(None, (words for _, words in found))))

    for start, end in pairwise(edges):
        here = [(what, kind) for a, b, what, kind in phrases if a <= start and end <= b]
        findings = [what for what, kind in here if kind != LONGITUDINAL]
        checked = [one for one in here if compared_with != "commitment" or one[1] != LONGITUDINAL]
        marks, about = [], [", ".join(dict.fromkeys(": ".join(one) for one in here))]
        if checked and others:
            by_name = {name: mark_in(name, checked) for name in others}
            mark, difference = min(by_name.values(), key=lambda one: _MARKS.index(one[0]))
            marks.append(mark or unsupported)
            about.append(_tooltip(mark, difference, with_support, without_support))
            if set(others) != {""}:
                agreeing = [n for n, (m, _) in by_name.items() if m in _MARKS[:2]]
                about.append(f"said by {' and '.join(sorted(agreeing)) or 'none'}")
        if any(kind == LONGITUDINAL for _, kind in here):
            marks.append(LONGITUDINAL)
        against = _contradiction([committed[one] for one in findings if one in committed])
        if (against and compared_with != "commitment") or "opposite" in against:
            marks.append("contradicts")
            about.append(against)
        if first is not None and any(
            what not in first.wording
            if kind == LONGITUDINAL
            else _adds(now[what], before.get(what))
            for what, kind in here
        ):
            marks.append("changed")
            about.append("differs from the first context")
        marked.append(Span(report[start:end], marks, "; ".join(filter(None, about))))
    return marked


def _tooltip(mark: str, difference: str, with_support: str, without_support: str) -> str:
    return {
        "": without_support,
        "matching": "; ".join(filter(None, (with_support, difference))),
        "opposite": "the other report says the opposite",
        "less-certain": "uncertain in one report only",
    }.get(mark, difference)


def _mark(row: Row | None, text: str, is_reference: bool) -> tuple[str, str]:
    """Return the mark of a finding by the verdict on it, empty if the other text does not state it,
    and the sides or severities in which both differ; ``text``: the name of the other one."""
    if row is None or row["reference_state"] is None or row["report_state"] is None:
        return "", ""
    if text == "commitment" and row["reference_state"] != row["report_state"]:
        return "", ""
    if row["verdict"] == "opposite":
        return "opposite", ""
    if "state" in row["wrong"]:
        return "less-certain", ""
    side, severity = (_difference(row, kind, text, is_reference) for kind in ("side", "severity"))
    mark = "wrong-side" if side else "other-severity" if severity else "matching"
    return mark, "; ".join(filter(None, (side, severity)))


def _difference(row: Row, kind: str, text: str, is_reference: bool) -> str:
    """Say which side or severity both texts have, if they contradict each other."""
    said = (
        " and ".join(words(Attributes(**{kind: frozenset(row[f"{of}_{kind}"])})))
        for of in ("reference", "report")
    )
    there, here = reversed([*said]) if is_reference else said
    if kind not in row["wrong"] or not here or not there:
        return ""
    return f"{kind}: {here} here, {there} in the {text}"


def _contradiction(rows: Sequence[Row]) -> str:
    """Say how a report contradicts its commitment in one of its findings; empty: it does not."""
    if any(row["verdict"] == "opposite" for row in rows):
        return "the commitment says the opposite"
    sides = (_difference(row, "side", "commitment", is_reference=False) for row in rows)
    return next(filter(None, sides), "")


def _adds(row: Row, before: Row | None) -> bool:
    """Return whether a text says more of a finding than the text before, or another state."""
    if before is None or row["state"] != before["state"]:
        return True
    return any({*row[kind]} - {*before[kind]} for kind in ("side", "severity"))


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
