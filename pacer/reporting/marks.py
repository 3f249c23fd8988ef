"""Marks in texts: a reference and a report are cut into spans by the verdicts on their findings
(:mod:`pacer.metrics.ledger`), which `pacer findings` counts as well.

A marked phrase is a mention of a finding, or it is **longitudinal**: wording that compares with an
earlier examination (:mod:`pacer.text.cleaning.wording`). The mark of a mention:

- **matching**: the verdict is correct;
- **partly**: the texts differ in side, severity, course or certainty, which the tooltip names;
- **wrong-side**: partly, and the texts contradict each other in the side;
- **opposite**: one text affirms the finding and the other denies it;
- **missed** in a reference, **invented** in a report: the other text does not state the finding.

A denial of a finding that the same text affirms elsewhere, such as on the other side, has no mark.
"""

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.core.anchor import Anchor
from pacer.core.attributes import Attributes, words
from pacer.metrics.ledger import compared, listed_findings, read_findings
from pacer.text.cleaning.wording import find_wording
from pacer.text.rules import Mention, find_mentions

Side = Literal["reference", "report"]
#: The other text, and the mark of a finding that it does not state.
_OTHER: Mapping[Side, tuple[Side, str]] = {
    "reference": ("report", "missed"),
    "report": ("reference", "invented"),
}
#: The marks from the mildest to the most serious, which is used where phrases overlap.
_MARKS = ("matching", "partly", "missed", "invented", "wrong-side", "opposite")
#: A row of the ledger: a finding in two texts.
Row = Mapping[str, Any]


class Span(NamedTuple):
    """Characters of a text with the same marks."""

    text: str
    #: Classes of ``style.css``: at most one of those of a mention, and ``longitudinal``.
    marks: tuple[str, ...] = ()
    #: The statements, and what the other text states.
    tooltip: str = ""


def beside(reference: str, report: str) -> tuple[list[Span], list[Span]]:
    """Return a reference and a report, each with marks by what the other states. Joined, the spans
    of a text are the text."""
    rows = _by_finding(compared(read_findings([reference]), read_findings([report])))
    return _spans(reference, rows, "reference"), _spans(report, rows, "report")


#: The states of a finding in words of a reader.
WORDS = {"positive": "present", "negative": "absent", "uncertain": "uncertain"}


def departures(commitment: Anchor, report: str) -> list[str]:
    """Return in words where a report departs from its commitment: findings with another state or
    side, or that only one of them states."""
    rows = compared(listed_findings([commitment]), read_findings([report]))
    differences: list[str] = []
    for finding, row in _by_finding(rows).items():
        kinds = [kind for kind in row["wrong"] if kind != "state" and row[f"report_{kind}"]]
        if row["reference_state"] != row["report_state"]:
            kinds = ["state"]
        differences += [
            f"{finding}: {_stated(row, 'report', kind)} in the report, "
            f"{_stated(row, 'reference', kind)} in the list"
            for kind in kinds
        ]
    return differences


def _by_finding(rows: pl.DataFrame) -> dict[str, Row]:
    return {row["finding"]: row for row in rows.iter_rows(named=True)}


def _spans(text: str, rows: Mapping[str, Row], side: Side) -> list[Span]:
    """Cut a text where a phrase begins or ends. A mention includes the cue that decides its
    polarity ("no evidence of" pneumothorax), unless another mention lies between them."""
    mentions = [
        mention
        for mention in find_mentions(text)
        if mention.polarity is not None
        and mention.polarity in (rows[mention.finding][f"{side}_state"], "positive", "uncertain")
    ]
    phrases = []
    for mention in mentions:
        mark, words_of_other = _mark(rows[mention.finding], side)
        tooltip = f"{mention.finding}: {mention.polarity}; {words_of_other}"
        phrases.append((*_extent(mention, mentions), mark, tooltip))
    for start, end, _ in find_wording(text):
        phrases.append((start, end, "longitudinal", "compares with an earlier examination"))
    edges = {0, len(text)}.union(*((start, end) for start, end, *_ in phrases))
    spans = []
    for start, end in pairwise(sorted(edges)):
        here = [phrase for phrase in phrases if phrase[0] <= start and end <= phrase[1]]
        marks = {mark for *_, mark, _ in here}
        shown = [mark for mark in _MARKS if mark in marks][-1:]
        shown += marks & {"longitudinal"}
        tooltips = dict.fromkeys(tooltip for *_, mark, tooltip in here if mark in shown)
        spans.append(Span(text[start:end], tuple(shown), "; ".join(tooltips)))
    return spans


def _mark(row: Row, side: Side) -> tuple[str, str]:
    """Return the mark of a finding, and in words what the other text states."""
    other, unstated = _OTHER[side]
    if row[f"{other}_state"] is None:
        return unstated, f"not in the {other}"
    if row["verdict"] == "opposite":
        return "opposite", f"the {other} states the opposite"
    if not row["wrong"]:
        return "matching", f"the same in the {other}"
    differences = [
        f"{kind}: {_stated(row, side, kind)} here, {_stated(row, other, kind)} in the {other}"
        for kind in row["wrong"]
    ]
    is_wrong_side = "side" in row["wrong"] and row["report_side"]
    return "wrong-side" if is_wrong_side else "partly", "; ".join(differences)


def _stated(row: Row, side: Side, kind: str) -> str:
    """Return the state of a finding in a text in words, or its sides, severities or courses."""
    if kind == "state":
        return WORDS.get(row[f"{side}_state"], "not stated")
    stated = Attributes(**{kind: frozenset(row[f"{side}_{kind}"])})
    return " and ".join(words(stated)) or "not stated"


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
