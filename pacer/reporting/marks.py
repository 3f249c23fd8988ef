"""Marks in texts: a report is cut into spans by whether another text makes the same statement.

A marked phrase is a mention of a finding, or it is **longitudinal**: wording that compares with an
earlier examination (:mod:`pacer.data.wording`), identified by the findings of its sentence and
their course, else by its rule and direction. Mentions have the marks of the verdict on their
finding (:mod:`pacer.metrics.ledger`): **matching** if it is correct, or if only the course differs
or something is left out, which the tooltip names; **wrong side** or **other severity** if the texts
contradict each other there; **less certain** if only one of them is uncertain; **opposite**;
**reference-only** in a reference, and **unverified** in a generated report, if the other text does
not state it. A denial of a finding that the same text affirms elsewhere, such as on the other side,
has no mark. A phrase **contradicts** the report's commitment if it affirms a finding that the
commitment denies, or the reverse, or states another side.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
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
#: A row of the ledger: a finding in two texts.
Row = Mapping[str, Any]
LONGITUDINAL = "longitudinal"
#: The marks of phrases that another text states, from the mildest to the gravest, which holds if
#: phrases overlap. The empty mark is that of phrases that it does not state.
_MARKS = ("matching", "other-severity", "less-certain", "", "wrong-side", "opposite")
#: Rules of wording that names an earlier study, without a statement on a finding.
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


class Statements(NamedTuple):
    """The statements of a text or of a commitment."""

    findings: pl.DataFrame
    #: The meanings of wording that compares with an earlier examination.
    comparisons: frozenset[str] = frozenset()


class Span(NamedTuple):
    """Characters of a report with the same marks."""

    text: str
    #: Classes of ``style.css``. A phrase that is compared with another text has one of
    #: ``matching``, ``reference-only``, ``unverified``, ``opposite``, ``wrong-side``,
    #: ``less-certain`` and ``other-severity``. Further marks: ``longitudinal``; ``contradicts``
    #: (the report's own commitment states the opposite, or another side); ``changed`` (not stated
    #: by the text of the first context).
    marks: Sequence[str] = ()
    #: The statements, and the texts that make them.
    tooltip: str = ""


def statements_of(text: str) -> Statements:
    """Return the statements of a text."""
    comparisons = frozenset(meaning for _, _, meaning in _comparisons(text))
    return Statements(read_findings([text]), comparisons)


def statements_in(commitment: Anchor) -> Statements:
    """Return the statements of a commitment, which makes no comparisons."""
    return Statements(listed_findings([commitment]))


def verdicts(reference: Statements, report: Statements) -> dict[str, Row]:
    """Return the verdict on each finding that either side states."""
    rows = compared(reference.findings, report.findings)
    return {row["finding"]: row for row in rows.iter_rows(named=True)}


def _sentence(report: str, at: int) -> str:
    """Return the sentence with the character ``at``."""
    bounds = [0, *(end.end() for end in _SENTENCE.finditer(report)), len(report)]
    place = bisect_right(bounds, at, hi=len(bounds) - 1)
    return report[bounds[place - 1] : bounds[place]]


def _comparisons(report: str) -> list[tuple[int, int, str]]:
    """Return the start, end and meanings of each wording of comparison: the course of each
    finding in its sentence; for a finding without one, and a sentence without a finding, the rule
    with its direction."""
    phrases = []
    for start, end, rule in find_wording(report):
        sentence = _sentence(report, start)
        direction = _DIRECTION.search(report[start:end].lower())
        rule_and_direction = f"{rule} ({direction[0]})" if direction else rule
        attributes = read_attributes(sentence)
        mentions = [m for m in find_mentions(sentence) if m.polarity is not None]
        findings = list(dict.fromkeys(m.finding for m in mentions))
        if not findings or rule in _OF_STUDIES:
            phrases.append((start, end, rule_and_direction))
            continue
        for finding in findings:
            courses = sorted(attributes[finding].course) if finding in attributes else []
            change = " and ".join(courses) or rule_and_direction
            phrases.append((start, end, f"{finding} {change}"))
    return phrases


def spans(
    report: str,
    compared_with: Other,
    others: Mapping[str, Statements],
    first: Statements | None = None,
    commitment: Anchor | None = None,
) -> list[Span]:
    """Cut a report into spans, which joined give the report.

    A mention includes the cue that decides its polarity ("no evidence of" pneumothorax), unless
    another mention lies between them. If phrases overlap, one without support determines the mark.
    A commitment makes no comparisons, so wording of comparison is not checked against it.

    Args:
        compared_with: the kind of the ``others``.
        others: the statements of other texts by name. The text that agrees best determines the
            mark, and the tooltip names those that match. Empty: nothing is checked.
        first: the statements of the report in the first context; None in that context itself.
        commitment: the report's own.
    """
    own = statements_of(report)
    unsupported, with_support, without_support = _COMPARED_WITH[compared_with]
    is_reference = compared_with == "generated"
    text = "generated report" if is_reference else compared_with
    rows = {
        name: verdicts(own, other) if is_reference else verdicts(other, own)
        for name, other in others.items()
    }
    committed = {} if commitment is None else verdicts(statements_in(commitment), own)
    before = {} if first is None else _by_finding(first)
    now = _by_finding(own)
    mentions = [
        m
        for m in find_mentions(report)
        if m.finding in now and m.polarity in (now[m.finding]["state"], "positive", "uncertain")
    ]
    phrases = [(*_extent(m, mentions), m.finding, str(m.polarity)) for m in mentions]
    phrases += [(*phrase, LONGITUDINAL) for phrase in _comparisons(report)]
    edges = {0, len(report)}
    for start, end, *_ in phrases:
        edges |= {start, end}
    marked = []

    def mark_in(name: str, statements: Collection[tuple[str, str]]) -> tuple[str, str]:
        """Return the mark of a piece by one of the other texts, and how that differs."""
        marks: list[str] = []
        differences: list[str] = []
        for statement, kind in statements:
            if kind == LONGITUDINAL:
                is_shared = statement in others[name].comparisons
                marks.append("matching" if is_shared else "")
                continue
            mark, difference = _mark(rows[name].get(statement), text, is_reference)
            marks.append(mark)
            differences.append(difference)
        return max(marks, key=_MARKS.index), _joined(dict.fromkeys(differences))

    def is_changed(statement: str, kind: str) -> bool:
        """Return whether the text of the first context does not make a statement."""
        if first is None:
            return False
        if kind == LONGITUDINAL:
            return statement not in first.comparisons
        return _adds(now[statement], before.get(statement))

    for start, end in pairwise(sorted(edges)):
        # statements of the phrases that cover the piece, each with its polarity or LONGITUDINAL
        here = [(statement, kind) for a, b, statement, kind in phrases if a <= start and end <= b]
        findings = [finding for finding, kind in here if kind != LONGITUDINAL]
        checked = here
        if compared_with == "commitment":
            checked = [(finding, kind) for finding, kind in here if kind != LONGITUDINAL]
        marks: list[str] = []
        tooltip = [", ".join(dict.fromkeys(f"{statement}: {kind}" for statement, kind in here))]
        if checked and others:
            by_name = {name: mark_in(name, checked) for name in others}
            mark, difference = min(by_name.values(), key=lambda pair: _MARKS.index(pair[0]))
            marks.append(mark or unsupported)
            tooltip.append(_tooltip(mark, difference, with_support, without_support))
            if set(others) != {""}:
                agreeing = sorted(n for n, (m, _) in by_name.items() if m in _MARKS[:2])
                tooltip.append(f"said by {' and '.join(agreeing) or 'none'}")
        if any(kind == LONGITUDINAL for _, kind in here):
            marks.append(LONGITUDINAL)
        contradiction = _contradiction([committed[name] for name in findings if name in committed])
        if (contradiction and compared_with != "commitment") or "opposite" in contradiction:
            marks.append("contradicts")
            tooltip.append(contradiction)
        if any(is_changed(statement, kind) for statement, kind in here):
            marks.append("changed")
            tooltip.append("differs from the first context")
        marked.append(Span(report[start:end], marks, _joined(tooltip)))
    return marked


def _by_finding(statements: Statements) -> dict[str, Row]:
    return {row["finding"]: row for row in statements.findings.iter_rows(named=True)}


def _joined(parts: Iterable[str]) -> str:
    return "; ".join(part for part in parts if part)


def _tooltip(mark: str, difference: str, with_support: str, without_support: str) -> str:
    return {
        "": without_support,
        "matching": _joined((with_support, difference)),
        "opposite": "the other report says the opposite",
        "less-certain": "uncertain in one report only",
    }.get(mark, difference)


def _mark(row: Row | None, text: str, is_reference: bool) -> tuple[str, str]:
    """Return the mark of a finding by the verdict on it, empty if the other text does not state it,
    and the differing sides or severities of both texts; ``text``: the name of the other text."""
    if row is None or row["reference_state"] is None or row["report_state"] is None:
        return "", ""
    if text == "commitment" and row["reference_state"] != row["report_state"]:
        return "", ""
    if row["verdict"] == "opposite":
        return "opposite", ""
    if "state" in row["wrong"]:
        return "less-certain", ""
    side = _difference(row, "side", text, is_reference)
    severity = _difference(row, "severity", text, is_reference)
    if side:
        return "wrong-side", _joined((side, severity))
    if severity:
        return "other-severity", severity
    return "matching", f"partly: {' and '.join(row['wrong'])}" if row["wrong"] else ""


def _difference(row: Row, kind: str, text: str, is_reference: bool) -> str:
    """Return the sides or severities of both texts, if they contradict each other."""
    if kind not in row["wrong"]:
        return ""
    in_reference = " and ".join(words(Attributes(**{kind: frozenset(row[f"reference_{kind}"])})))
    in_report = " and ".join(words(Attributes(**{kind: frozenset(row[f"report_{kind}"])})))
    if not in_reference or not in_report:
        return ""
    if is_reference:
        return f"{kind}: {in_reference} here, {in_report} in the {text}"
    return f"{kind}: {in_report} here, {in_reference} in the {text}"


def _contradiction(rows: Sequence[Row]) -> str:
    """Describe how a report contradicts its commitment in one of its findings; empty: it does
    not."""
    if any(row["verdict"] == "opposite" for row in rows):
        return "the commitment says the opposite"
    for row in rows:
        difference = _difference(row, "side", "commitment", is_reference=False)
        if difference:
            return difference
    return ""


def _adds(row: Row, before: Row | None) -> bool:
    """Return whether a text adds a side or severity to a finding of the text before, or gives it
    another state."""
    if before is None or row["state"] != before["state"]:
        return True
    return any({*row[kind]} - {*before[kind]} for kind in ("side", "severity"))


def _extent(mention: Mention, mentions: Collection[Mention]) -> tuple[int, int]:
    """Return where a mention begins and ends, including its cue."""
    if mention.cue is None:
        return mention.start, mention.end
    start = min(mention.start, mention.cue[0])
    end = max(mention.end, mention.cue[1])
    is_separate = any(
        start <= m.start < end and (m.start, m.end) != (mention.start, mention.end)
        for m in mentions
    )
    return (mention.start, mention.end) if is_separate else (start, end)
