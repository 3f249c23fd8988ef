"""The account of a run: every row of the input is used, beyond ``corpus.limit``, or listed in ``problems.csv``.

Columns of the table: ``kind`` (bad | left out), ``file``, ``split``, ``index`` (counted from 0; in a table the line),
``field``, ``reason`` and ``rows`` (how many rows of the input the line stands for; 0 where the row still gives records
of other contexts). Rows are what is counted, and a line of no row counts as one.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

from pacer.data.rows import LeftOut, Problem

COLUMNS = ("kind", "file", "split", "index", "field", "reason", "rows")

#: Bad rows, and reasons, shown in an error.
SHOWN = 10


class ProblemList:
    """Counts and lists.

    Attributes:
        rows: what became of the rows of the input.
        bad, left_out: why, by reason.
        listed: the lines of the table.
    """

    def __init__(self) -> None:
        self.rows = Counter({"used": 0, "bad": 0, "left_out": 0, "beyond_limit": 0})
        self.bad: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.listed: list[Problem | LeftOut] = []

    def add(self, row: Problem | LeftOut) -> None:
        """List one row."""
        self.listed.append(row)
        if isinstance(row, Problem):
            self.rows["bad"] += row.rows
            self.bad[f"{row.field}: {row.counted or row.reason}"] += max(row.rows, 1)
        else:
            self.rows["left_out"] += row.rows
            self.left_out[row.reason] += max(row.rows, 1)

    def write(self, path: Path) -> None:
        """Write the table."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(COLUMNS)
            for row in self.listed:
                kind, field = ("bad", row.field) if isinstance(row, Problem) else ("left out", "")
                table.writerow((kind, *row.place, field, row.reason, row.rows))

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
        problems = [row for row in self.listed if isinstance(row, Problem)]
        lines = [f"{problem.place} {problem.field}: {problem.reason}" for problem in problems[:SHOWN]]
        more = f"\n  ... and {bad - len(lines)} more" if bad > len(lines) >= SHOWN else ""
        return (
            f"{bad} unusable row{'s' * (bad != 1)}, corpus.max_bad_rows allows {allowed}; fix them, or raise "
            f"corpus.max_bad_rows to exclude and list them (all are in {table})\n  " + "\n  ".join(lines) + more
        )


def most_frequent(counts: Counter[str]) -> dict[str, int]:
    """Counts, the largest first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
