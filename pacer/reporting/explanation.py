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

#: Headings of what the rules read, and of the evidence.
READ, EVIDENCE = ("Words", "Finding", "Polarity", "Because of", "Decides"), ("Finding", "Phrase", "")


@dataclass(frozen=True)
class Explanation:
    """One record's commitment.

    Attributes:
        anchor: the commitment used in training; origin: ``llm`` or ``rules``. by_rules: what the rules extract.
        report: as the rules read it; mentions: of findings in it, and read: each mention and its cue in words.
        evidence: the labelling model's own phrases, if its answer is available, and whether the report contains them.
    """

    context: str
    split: str
    origin: str
    anchor: Anchor
    by_rules: Anchor
    report: str
    mentions: list[Mention]
    read: list[tuple[str, ...]]
    evidence: list[tuple[str, ...]]


def explain(record_id: str, records: Path, anchors: Path, answers: Path) -> Explanation:
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
    rows, targets = (
        pl.scan_parquet(table).filter(pl.col("record_id") == record_id).collect().to_dicts()
        for table in (records, anchors)
    )
    if not rows:
        example = pl.scan_parquet(records).select("record_id").head(1).collect().item()
        raise DataError(f"{records} has no record {record_id}; ids look like {example}")
    if not targets:
        raise DataError(f"{anchors} has no anchor for record {record_id}; make the anchors again")
    origin, anchor = targets[0]["origin"], Anchor(*(tuple(targets[0][name]) for name in POLARITIES))
    report = rows[0]["report_raw"]
    mentions = find_mentions(report)
    read: list[tuple[str, ...]] = [
        (
            report[m.start : m.end],
            m.finding,
            m.polarity or "nothing said",
            report[slice(*m.cue)] if m.cue else "",
            "yes" if m.decided else "",
        )
        for m in mentions
    ]
    return Explanation(
        rows[0]["context"],
        rows[0]["split"],
        origin,
        anchor,
        by_rules=extract_anchor(report),
        report=report,
        mentions=mentions,
        read=read or [("no finding is named", *[""] * 4)],
        evidence=_evidence(record_id, anchor, report, answers) if origin == "llm" else [],
    )


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
