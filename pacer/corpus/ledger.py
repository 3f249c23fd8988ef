"""The account of a run: every row of the input is used, beyond ``corpus.limit``, or listed in ``problems.csv``.

Columns of the table: ``kind`` (bad | left out), ``file``, ``split``, ``index`` (counted from 0; in a table the line),
``field``, ``reason`` and ``rows`` (how many rows of the input the line stands for; 0 where the row still gives records
of other contexts). All are in it, however many there are; only counts and the first few stay in memory. Rows are what
is counted, and a line of no row counts as one.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

from pacer.corpus.rows import LeftOut, Problem

COLUMNS = ("kind", "file", "split", "index", "field", "reason", "rows")

#: Bad rows, and reasons, shown in an error.
SHOWN = 10


class Ledger:
    """Writes ``problems.csv`` row by row and counts. Use as a context manager.

    Attributes:
        rows: what became of the rows of the input.
        bad, left_out: why, by reason.
    """

    def __init__(self, path: Path):
        self.path = path
        self.rows = Counter({"used": 0, "bad": 0, "left_out": 0, "beyond_limit": 0})
        self.bad: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.first: list[Problem] = []

    def __enter__(self) -> Ledger:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(self.path, "w", newline="", encoding="utf-8")
        self.writer = csv.writer(self.file)
        self.writer.writerow(COLUMNS)
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def add(self, row: Problem | LeftOut) -> None:
        """Write one row."""
        if isinstance(row, Problem):
            self.rows["bad"] += row.rows
            self.bad[f"{row.field}: {row.counted or row.reason}"] += max(row.rows, 1)
            if len(self.first) < SHOWN:
                self.first.append(row)
            self.writer.writerow(("bad", *row.place, row.field, row.reason, row.rows))
        else:
            self.rows["left_out"] += row.rows
            self.left_out[row.reason] += max(row.rows, 1)
            self.writer.writerow(("left out", *row.place, "", row.reason, row.rows))

    def message(self, allowed: int, table: Path) -> str:
        """What an error says when more rows are bad than ``allowed``, or when no record is left.

        Args:
            table: where all rows are listed.
        """
        bad = self.bad.total()
        if bad <= allowed:
            reasons = [*most_frequent(self.bad).items(), *most_frequent(self.left_out).items()]
            found = "; ".join(f"{count} × {reason}" for reason, count in reasons[:SHOWN]) or "the input has no rows"
            return f"no usable record is left: {found} (all rows are in {table})"
        lines = [f"{p.place} {p.field}: {p.reason}" for p in self.first]
        more = f"\n  ... and {bad - len(lines)} more" if bad > len(lines) >= SHOWN else ""
        return (
            f"{bad} unusable row{'s' * (bad != 1)}, corpus.max_bad_rows allows {allowed}; mend them, or raise "
            f"corpus.max_bad_rows to exclude and list them (all are in {table})\n  " + "\n  ".join(lines) + more
        )


def most_frequent(counts: Counter[str]) -> dict[str, int]:
    """Counts, the largest first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
