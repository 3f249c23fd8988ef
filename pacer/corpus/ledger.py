"""Everything that a run could not use or left out, in one table that people can open: ``problems.csv``.

Columns: ``kind`` (bad | left out), ``file``, ``split``, ``index`` (counted from 0), ``field``, ``reason`` and ``rows``
(how many rows of the input the line stands for; 0 where the row still gives records of other contexts). All are in
it, however many there are; only counts and the first few stay in memory. Rows are what is counted, and a line of no
row counts as one.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any

from pacer.corpus.rows import LeftOut, Problem

COLUMNS = ("kind", "file", "split", "index", "field", "reason", "rows")

#: Bad rows shown in an error.
SHOWN = 10


class Ledger:
    """Writes ``problems.csv`` row by row and counts. Use as a context manager."""

    def __init__(self, path: Path):
        self.path = path
        self.bad = self.left_out = self.bad_rows = self.left_out_rows = 0
        self.first: list[Problem] = []
        self.bad_reasons: Counter[str] = Counter()
        self.left_out_reasons: Counter[str] = Counter()

    def __enter__(self) -> Ledger:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(self.path, "w", newline="", encoding="utf-8")
        self.writer = csv.writer(self.file)
        self.writer.writerow(COLUMNS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def add(self, row: Problem | LeftOut, counted: str | None = None) -> None:
        """Write one row.

        Args:
            counted: the reason to count it under, where ``row.reason`` holds what differs from row to row.
        """
        if isinstance(row, Problem):
            self.bad += max(row.rows, 1)
            self.bad_rows += row.rows
            self.bad_reasons[f"{row.field}: {counted or row.reason}"] += max(row.rows, 1)
            if len(self.first) < SHOWN:
                self.first.append(row)
            self.writer.writerow(("bad", *row.place, row.field, row.reason, row.rows))
        else:
            self.left_out += max(row.rows, 1)
            self.left_out_rows += row.rows
            self.left_out_reasons[row.reason] += max(row.rows, 1)
            self.writer.writerow(("left out", *row.place, "", row.reason, row.rows))

    def summary(self) -> dict[str, Any]:
        """Counts by reason, most frequent first."""
        return {
            "excluded": {"count": self.bad, "reasons": _sorted(self.bad_reasons)},
            "left_out": {"count": self.left_out, "reasons": _sorted(self.left_out_reasons)},
        }

    def message(self, allowed: int, table: Path) -> str:
        """What an error says when more rows are bad than ``allowed``, or when no record is left.

        Args:
            table: where all rows are listed.
        """
        if self.bad <= allowed:
            reasons = [*_sorted(self.bad_reasons).items(), *_sorted(self.left_out_reasons).items()]
            told = "; ".join(f"{count} × {reason}" for reason, count in reasons[:SHOWN]) or "the input has no rows"
            return f"no usable record is left: {told} (all rows are in {table})"
        lines = [f"{p.place.file} {p.place.split}[{p.place.index}] {p.field}: {p.reason}" for p in self.first]
        more = f"\n  ... and {self.bad - len(lines)} more" if self.bad > len(lines) >= SHOWN else ""
        return (
            f"{self.bad} unusable rows, corpus.max_bad_rows allows {allowed}; mend them, or raise corpus.max_bad_rows "
            f"to exclude and list them (all are in {table})\n  " + "\n  ".join(lines) + more
        )


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
