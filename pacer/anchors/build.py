"""The anchors of a corpus: every record by rules, sampled training records by their labelling answer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from pacer.anchors.anchor import Anchor
from pacer.anchors.answers import STATUSES, Answer, read_answer
from pacer.anchors.rules import RULES_VERSION, extract_anchor
from pacer.anchors.sampling import refuse_held_out
from pacer.anchors.vocabulary import FINDINGS, MAX_PER_FIELD, POLARITIES
from pacer.core.errors import DataError
from pacer.core.io import read_jsonl
from pacer.corpus.records import read_table

ANCHOR_SCHEMA: dict[str, pl.DataType] = {
    "record_id": pl.String(),
    "positive": pl.List(pl.String()),
    "negative": pl.List(pl.String()),
    "uncertain": pl.List(pl.String()),
    "origin": pl.String(),  # llm | rules
}


def build_anchors(records: pl.DataFrame, cache_path: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The anchor of every record, and the audit of how they came about.

    Args:
        records: a table of the record schema; rules read ``report_raw``.
        cache_path: ``llm_cache.jsonl``. Answers that cannot be read leave their record to the rules.

    Returns:
        A table of :data:`ANCHOR_SCHEMA` in the order of ``records``, and the audit.

    Raises:
        DataError: the cache is missing or malformed, or names a record that is unknown, repeated or held out.
    """
    answers = _read_cache(cache_path, records)
    by_text: dict[str, Anchor] = {}
    rules: dict[str, Anchor] = {}
    for record_id, text in records.select("record_id", "report_raw").iter_rows():
        if text not in by_text:
            by_text[text] = extract_anchor(text)
        rules[record_id] = by_text[text]
    labelled = {record_id: answer.anchor for record_id, answer in answers.items() if answer.anchor is not None}
    final = rules | labelled
    rows = [
        {"record_id": record_id, **final[record_id].as_dict(), "origin": "llm" if record_id in labelled else "rules"}
        for record_id in records["record_id"]
    ]
    anchors = pl.DataFrame(rows, schema=ANCHOR_SCHEMA)
    audit = {
        "rules": RULES_VERSION,
        "records": len(rows),
        "origins": _origins(records, anchors),
        "answers": {
            "read": len(answers),
            "statuses": {status: sum(a.status == status for a in answers.values()) for status in STATUSES},
            "names_off_vocabulary": sum(len(answer.off_vocabulary) for answer in answers.values()),
            "answers_with_names_off_vocabulary": sum(bool(answer.off_vocabulary) for answer in answers.values()),
            "findings_repeated": sum(answer.repeated for answer in answers.values()),
        },
        "polarities": {origin: _polarities(anchors.filter(origin=origin)) for origin in ("llm", "rules")},
        "empty_anchors": sum(anchor == Anchor() for anchor in final.values()),
        f"fields_over_{MAX_PER_FIELD}": sum(
            len(getattr(anchor, name)) > MAX_PER_FIELD for anchor in final.values() for name in POLARITIES
        ),
        "agreement": agreement([rules[record_id] for record_id in labelled], list(labelled.values())),
    }
    return anchors, audit


def read_anchors(path: str | Path) -> pl.DataFrame:
    """Read ``anchors.parquet``.

    Raises:
        DataError: the file is missing or unreadable, its columns differ, or a record has two anchors.
    """
    anchors = read_table(path, ANCHOR_SCHEMA)
    if anchors["record_id"].is_duplicated().any():
        raise DataError(f"{path} has two anchors for one record; make the anchors again")
    return anchors


def agreement(first: list[Anchor], second: list[Anchor]) -> dict[str, Any]:
    """How two extractors agree on the same reports, over positive, negative, uncertain and not mentioned.

    Returns:
        ``{records, identical, findings: {finding: {kappa, agreement}}}``; ``identical`` and ``agreement`` are shares.
        Cohen's kappa is None where it is not defined (both name one and the same state throughout, or no records).
    """
    count = len(first)
    findings = {}
    for finding in FINDINGS:
        pairs = Counter((a.polarity(finding), b.polarity(finding)) for a, b in zip(first, second))
        observed = sum(n for (one, other), n in pairs.items() if one == other)
        left, right = Counter(), Counter()
        for (one, other), n in pairs.items():
            left[one] += n
            right[other] += n
        by_chance = sum(left[state] * right[state] for state in left)
        defined = count > 0 and by_chance < count * count
        kappa = (observed * count - by_chance) / (count * count - by_chance) if defined else None
        findings[finding] = {"kappa": kappa, "agreement": observed / count if count else None}
    identical = sum(a == b for a, b in zip(first, second))
    return {"records": count, "identical": identical / count if count else None, "findings": findings}


def _read_cache(path: Path, records: pl.DataFrame) -> dict[str, Answer]:
    """The answers by record id, read anew from the model's own words."""
    answers = {}
    for number, line in enumerate(read_jsonl(path), start=1):
        if not isinstance(line, dict) or not isinstance(line.get("record_id"), str) or "raw" not in line:
            raise DataError(f"{path}, line {number} must be an object with record_id and raw; label the sample again")
        if not line.get("current", True):  # paid for, and for another prompt or sample
            continue
        record_id = line["record_id"]
        if record_id in answers:
            raise DataError(f"{path}, line {number}: record {record_id} has two answers; label the sample again")
        answers[record_id] = read_answer(line["raw"] or "", record_id, line.get("finish_reason"))
    unknown = sorted(answers.keys() - set(records["record_id"]))
    if unknown:
        raise DataError(f"{path} has answers for {len(unknown)} records that the corpus lacks, such as {unknown[0]}")
    refuse_held_out(records, pl.Series("record_id", list(answers), dtype=pl.String))
    return answers


def _origins(records: pl.DataFrame, anchors: pl.DataFrame) -> dict[str, dict[str, int]]:
    """``{context: {llm, rules}}``."""
    joined = anchors.join(records.select("record_id", "context"), on="record_id")
    counts: dict[str, dict[str, int]] = {}
    for context, origin, count in joined.group_by("context", "origin").len().sort("context", "origin").iter_rows():
        counts.setdefault(context, {"llm": 0, "rules": 0})[origin] = count
    return counts


def _polarities(anchors: pl.DataFrame) -> dict[str, dict[str, int]]:
    """``{finding: {positive, negative, uncertain}}``: in how many anchors."""
    counts = {name: Counter(anchors[name].explode().drop_nulls()) for name in POLARITIES}
    return {finding: {name: counts[name][finding] for name in POLARITIES} for finding in FINDINGS}
