"""Marks in texts: a report is cut into spans by whether another text makes the same statement.

A marked phrase is a mention of a finding, or it is **longitudinal**: wording that compares with an
earlier examination (:mod:`pacer.text.cleaning.wording`). Such wording is identified by the findings
of its sentence and their course, or else by its rule and direction.

The mark of a mention follows from the verdict on its finding (:mod:`pacer.metrics.ledger`):

- **matching**: the verdict is correct, or only the course differs or something is left out, which
  the tooltip names;
- **wrong side** or **other severity**: the texts contradict each other in this;
- **less certain**: only one of the texts is uncertain;
- **opposite**: one text affirms the finding and the other denies it;
- **reference-only** in a reference, **unverified** in a generated report: the other text does not
  state the finding.

A denial of a finding that the same text affirms elsewhere, such as on the other side, has no mark.
A phrase **contradicts** the report's commitment if it affirms a finding that the commitment denies,
or the reverse, or states another side.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.core.anchor import Anchor, Attributes, words
from pacer.metrics.ledger import compared, listed_findings, read_findings
from pacer.text.cleaning.wording import find_wording
from pacer.text.rules import Mention, find_mentions, read_attributes

#: Kind of text that a text is compared with.
Other = Literal["reference", "generated", "commitment"]
#: A row of the ledger: a finding in two texts.
Row = Mapping[str, Any]
LONGITUDINAL = "longitudinal"
#: A finding and its polarity; or the meaning of a comparison, and ``LONGITUDINAL``.
_Statement = tuple[str, str]
#: The marks from the mildest to the most serious. If phrases overlap, the most serious mark is
#: used. The empty mark is for phrases that the other text does not state.
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
    "commitment": ("unverified", "in the list of findings", "not in the list of findings"),
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
    """Return the start, end and meaning of each wording of comparison, once for each finding in its
    sentence. The meaning is the finding with its course, or with the rule and the direction if the
    course is not stated; in a sentence without findings, only the rule and the direction."""
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
    marker = _Marker(own, compared_with, others, first, commitment)
    marked = []
    for start, end in pairwise(sorted(edges)):
        here = [(statement, kind) for a, b, statement, kind in phrases if a <= start and end <= b]
        marked.append(marker.span(report[start:end], here))
    return marked


class _Marker:
    """Marks the pieces of a report; the arguments are those of :func:`spans`, and the report's own
    statements."""

    def __init__(
        self,
        own: Statements,
        compared_with: Other,
        others: Mapping[str, Statements],
        first: Statements | None,
        commitment: Anchor | None,
    ):
        self.compared_with = compared_with
        self.others = others
        self.first = first
        self.is_reference = compared_with == "generated"
        if self.is_reference:
            self.rows = {name: verdicts(own, other) for name, other in others.items()}
        else:
            self.rows = {name: verdicts(other, own) for name, other in others.items()}
        self.committed = {} if commitment is None else verdicts(statements_in(commitment), own)
        self.before = {} if first is None else _by_finding(first)
        self.now = _by_finding(own)

    def span(self, text: str, statements: Sequence[_Statement]) -> Span:
        """Return a piece of the report with its marks, from the statements of the phrases that
        cover it."""
        findings = [finding for finding, kind in statements if kind != LONGITUDINAL]
        checked = statements
        if self.compared_with == "commitment":
            checked = [(finding, kind) for finding, kind in statements if kind != LONGITUDINAL]
        marks: list[str] = []
        stated = dict.fromkeys(f"{statement}: {kind}" for statement, kind in statements)
        tooltip = [", ".join(stated)]
        if checked and self.others:
            mark, notes = self._support(checked)
            marks.append(mark)
            tooltip += notes
        if len(findings) < len(statements):
            marks.append(LONGITUDINAL)
        contradiction = _contradiction(
            [self.committed[name] for name in findings if name in self.committed]
        )
        if (contradiction and self.compared_with != "commitment") or "opposite" in contradiction:
            marks.append("contradicts")
            tooltip.append(contradiction)
        if any(self._is_changed(statement, kind) for statement, kind in statements):
            marks.append("changed")
            tooltip.append("differs from the first context")
        return Span(text, marks, _joined(tooltip))

    def _support(self, statements: Sequence[_Statement]) -> tuple[str, list[str]]:
        """Return the mark of a piece by the other text that agrees best, and the parts of the
        tooltip on it."""
        unsupported, with_support, without_support = _COMPARED_WITH[self.compared_with]
        by_name = {name: self._mark_in(name, statements) for name in self.others}
        mark, difference = min(by_name.values(), key=lambda pair: _MARKS.index(pair[0]))
        notes = [_tooltip(mark, difference, with_support, without_support)]
        if set(self.others) != {""}:
            agreeing = sorted(name for name, (of, _) in by_name.items() if of in _MARKS[:2])
            notes.append(f"the same in {' and '.join(agreeing) or 'no report'}")
        return mark or unsupported, notes

    def _mark_in(self, name: str, statements: Sequence[_Statement]) -> tuple[str, str]:
        """Return the mark of a piece by one of the other texts, and how that differs."""
        other_text = "generated report" if self.is_reference else self.compared_with
        marks: list[str] = []
        differences: list[str] = []
        for statement, kind in statements:
            if kind == LONGITUDINAL:
                is_shared = statement in self.others[name].comparisons
                marks.append("matching" if is_shared else "")
                continue
            row = self.rows[name].get(statement)
            mark, difference = _mark(row, other_text, self.is_reference)
            marks.append(mark)
            differences.append(difference)
        return max(marks, key=_MARKS.index), _joined(dict.fromkeys(differences))

    def _is_changed(self, statement: str, kind: str) -> bool:
        """Return whether the text of the first context does not make a statement."""
        if self.first is None:
            return False
        if kind == LONGITUDINAL:
            return statement not in self.first.comparisons
        return _adds(self.now[statement], self.before.get(statement))


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
    """Return the mark of a finding from the verdict on it (empty if the other text does not state
    it), and the differing sides or severities of both texts. ``text``: the name of the other
    text."""
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
    text = text.replace("commitment", "list of findings")
    if is_reference:
        return f"{kind}: {in_reference} here, {in_report} in the {text}"
    return f"{kind}: {in_report} here, {in_reference} in the {text}"


def _contradiction(rows: Sequence[Row]) -> str:
    """Describe how a report contradicts its commitment in one of its findings; empty: it does
    not."""
    if any(row["verdict"] == "opposite" for row in rows):
        return "the list of findings says the opposite"
    for row in rows:
        difference = _difference(row, "side", "commitment", is_reference=False)
        if difference:
            return difference
    return ""


def _adds(row: Row, before: Row | None) -> bool:
    """Return whether a text (``row``) adds a side or severity to a finding of another text
    (``before``), or gives it another state."""
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
