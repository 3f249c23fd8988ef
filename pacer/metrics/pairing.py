"""Strict pairing: every expected record has exactly one prediction, and no prediction is left over."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacer.commitments.anchor import CLOSE_REPORT, OPEN_REPORT
from pacer.core.errors import DataError
from pacer.core.io import numbered_jsonl
from pacer.data.findings import FINDINGS


@dataclass(frozen=True)
class Prediction:
    """What was generated for one record; ``anchor`` maps polarity to findings, or is ``None`` without one.

    ``unclosed``: the last ``<REPORT>`` of the whole text has no ``</REPORT>``, ``tokens``: its length; both ``None``
    where the line does not say."""

    record_id: str
    report: str
    anchor: dict[str, list[str]] | None
    fallback: bool
    gate: float | None
    unclosed: bool | None = None
    tokens: int | None = None


def check_pairs(expected: Sequence[str], found: Sequence[str], expected_name: str, found_name: str) -> None:
    """Raise unless both hold the same ids, each once, in whatever order.

    Raises:
        DataError: an id is missing, extra or there twice; up to three are named.
    """
    problems = []
    for ids, name in ((expected, expected_name), (found, found_name)):
        repeated = [key for key, count in Counter(ids).items() if count > 1]
        if repeated:
            problems.append(f"more than once in {name}: {named(repeated)}")
    known, given = set(expected), set(found)
    missing, extra = [i for i in expected if i not in given], [i for i in found if i not in known]
    if missing:
        problems.append(f"missing in {found_name}: {named(missing)}")
    if extra:
        problems.append(f"in {found_name} but not in {expected_name}: {named(extra)}")
    if problems:
        raise DataError(f"ids of {expected_name} and {found_name} do not pair; {'; '.join(problems)}")


def read_predictions(path: Path, record_ids: Sequence[str]) -> list[Prediction]:
    """The predictions in ``path`` in the order of ``record_ids``, exactly one for each.

    Raises:
        DataError: the file is missing, a line lacks a field or holds one of the wrong kind, or the ids do not pair.
    """
    rows = [_prediction(row, path, line) for line, row in numbered_jsonl(path)]
    check_pairs(record_ids, [row.record_id for row in rows], "the records", str(path))
    by_id = {row.record_id: row for row in rows}
    return [by_id[record_id] for record_id in record_ids]


def _prediction(row: Any, path: Path, line: int) -> Prediction:
    if not isinstance(row, dict) or not isinstance(row.get("record_id"), str):
        raise DataError(f"{path}, line {line}: expected an object with a record_id")
    where = f"{path}, line {line} ({row['record_id']})"
    if not isinstance(row.get("report"), str):
        raise DataError(f"{where}: report must be text")
    for name, (right, words) in _OPTIONAL.items():
        if row.get(name) is not None and not right(row[name]):
            raise DataError(f"{where}: {name} must be {words}")
    anchor = row.get("anchor")
    if anchor is not None:
        if not isinstance(anchor, dict) or set(anchor) != {"positive", "negative", "uncertain"}:
            raise DataError(f"{where}: anchor must hold positive, negative and uncertain, or be null")
        for polarity, findings in anchor.items():
            if not isinstance(findings, list) or any(finding not in FINDINGS for finding in findings):
                raise DataError(f"{where}: anchor: {polarity} must be a list of findings of the vocabulary")
    gate, text = row.get("gate"), row.get("generated")
    return Prediction(
        row["record_id"],
        row["report"],
        anchor,
        row.get("fallback") or False,
        None if gate is None else float(gate),
        None if text is None else is_unclosed(text),
        row.get("tokens"),
    )


def is_unclosed(generated: str) -> bool:
    """Whether the last ``<REPORT>`` of a generated text has no ``</REPORT>``."""
    return OPEN_REPORT in generated and CLOSE_REPORT not in generated.rpartition(OPEN_REPORT)[2]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < sys.float_info.max


#: What a line may say besides: is a value of the right kind, and the kind in words.
_OPTIONAL: dict[str, tuple[Callable[[Any], bool], str]] = {
    "generated": (lambda value: isinstance(value, str), "text"),
    "tokens": (_is_count, "a whole number, 0 or more"),
    "gate": (_is_finite, "a finite number"),
    "fallback": (lambda value: isinstance(value, bool), "true or false"),
}


def named(ids: Sequence[str], most: int = 3) -> str:
    """The first of ``ids``, and how many there are besides."""
    return ", ".join(map(str, ids[:most])) + (f" and {len(ids) - most} more" if len(ids) > most else "")
