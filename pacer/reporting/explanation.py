"""Explanation of a record's commitment: its report, with the words that the rules matched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pacer.commitments.anchor import ANCHOR_SCHEMA, POLARITIES, Anchor
from pacer.commitments.answers import count_missing, read_answer, read_answers
from pacer.commitments.rules.extract import Mention, extract_anchor, find_mentions
from pacer.core.errors import DataError
from pacer.data.schemas import RECORD_SCHEMA, check_columns
from pacer.reporting.tables import Table

#: Label of each kind of cue.
KINDS = {
    "uncertain": "hedges",
    "hint": "hedges unless denied",
    "negative": "denies",
    "instead": "names something else",
    "silent": "says nothing",
    "normality": "normal size or contour",
}


@dataclass(frozen=True)
class Explanation:
    """One record's commitment.

    Attributes:
        anchor: the commitment used in training; origin: ``llm`` or ``rules``. by_rules: what the rules extract.
        report: as the rules read it; mentions: of findings in it, and read: each mention and its cue in words.
        evidence: the labelling model's own phrases, if its answer is available, and whether the report contains them.
    """

    record_id: str
    context: str
    split: str
    origin: str
    anchor: Anchor
    by_rules: Anchor
    report: str
    mentions: list[Mention]
    read: Table
    evidence: Table


def explain(record_id: str, records: Path, anchors: Path, answers: Path | None = None) -> Explanation:
    """Look a record up and read its report again.

    Args:
        records: ``records.parquet``. anchors: ``anchors.parquet``, made from these records.
        answers: ``llm_cache.jsonl``, the source of evidence phrases for commitments by the labelling model; may be
            missing.

    Raises:
        DataError: a table is missing or invalid, or it does not contain the record.
    """
    check_columns(records, RECORD_SCHEMA)
    check_columns(anchors, ANCHOR_SCHEMA)
    rows = pl.scan_parquet(records).filter(pl.col("record_id") == record_id).collect()
    if rows.is_empty():
        example = pl.scan_parquet(records).select("record_id").head(1).collect().item()
        raise DataError(f"{records} has no record {record_id}; ids look like {example}")
    row = rows.row(0, named=True)
    target = pl.scan_parquet(anchors).filter(pl.col("record_id") == record_id).collect().to_dicts()
    if not target:
        raise DataError(f"{anchors} has no anchor for record {record_id}; make the anchors again")
    origin, anchor = target[0]["origin"], Anchor(*(tuple(target[0][name]) for name in POLARITIES))
    report = row["report_raw"]
    mentions = find_mentions(report)
    read: list[tuple[str, ...]] = [
        (
            report[m.start : m.end],
            m.finding,
            m.polarity or "nothing said",
            report[slice(*m.cue)] if m.cue else "",
            KINDS.get(m.kind or "", ""),
            "yes" if m.decided else "",
        )
        for m in mentions
    ] or [("no finding is named", *[""] * 5)]
    phrases = _evidence(record_id, anchor, report, answers) if origin == "llm" and answers else []
    return Explanation(
        record_id,
        row["context"],
        row["split"],
        origin,
        anchor,
        by_rules=extract_anchor(report),
        report=report,
        mentions=mentions,
        read=_words(("Words", "Finding", "Polarity", "Because of", "which", "Decides"), read),
        evidence=_words(("Finding", "Phrase", ""), phrases),
    )


def _words(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    return Table(columns, tuple(rows), numeric=(False,) * len(columns))


def _evidence(record_id: str, anchor: Anchor, report: str, answers: Path) -> list[tuple[str, ...]]:
    """Return the phrases of the answer that this anchor was read from; none if the file or the answer is missing."""
    for line in read_answers(answers):
        if line.record_id == record_id and line.current:
            answer = read_answer(line.raw, record_id)
            if answer.anchor == anchor:
                return [
                    (finding, text, "not in the report in these words" if count_missing([text], report) else "")
                    for finding, texts in answer.rationale.items()
                    for text in texts
                ]
    return []
