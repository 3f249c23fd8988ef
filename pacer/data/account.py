"""The account of a run: every row of the input is used, beyond ``corpus.limit``, or listed in ``problems.csv``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from pacer.data.studies import mapped
from pacer.data.values import BAD, LEFT_OUT, quoted

#: Columns of ``problems.csv``. ``row``: ``line 3`` of a table, ``row 3`` of Parquet (from 1), ``train[3]`` of JSON
#: (from 0). ``rows``: how many rows of the input the line stands for, 0 where they give other records.
PROBLEM_SCHEMA: dict[str, pl.DataType] = {
    "file": pl.String(),
    "row": pl.String(),
    "id": pl.String(),
    "field": pl.String(),
    "reason": pl.String(),
    "kind": pl.String(),
    "rows": pl.Int64(),
}
#: Bad rows, and reasons, shown in an error.
SHOWN = 10
#: Values that are counted one by one under a topic.
_VALUES = 200


class Account:
    """Lists what is not used and counts what a reader met besides.

    Attributes:
        read: rows read, by input (a context, or the role of a file).
        topics: ``{topic: {input: {value: count}}}``.
    """

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()
        self.topics: dict[str, dict[str, Counter[str]]] = {}
        self._listed: list[pl.DataFrame] = []
        self._single: list[tuple[Any, ...]] = []

    def count(self, topic: str, source: str, value: str, number: int = 1) -> None:
        """Count ``value`` under ``topic`` for one input."""
        if number:
            shown = value[:60].encode("utf-8", "backslashreplace").decode()
            counts = self.topics.setdefault(topic, {}).setdefault(source, Counter())
            counts[shown if shown in counts or len(counts) < _VALUES else "(others)"] += number

    def notes(self, topic: str) -> dict[str, dict[str, int]]:
        """``{input: {value: count}}``, most frequent value first."""
        return {source: most_frequent(counts) for source, counts in self.topics.get(topic, {}).items()}

    def add(self, kind: str, file: str, row: str, id: str | None, field: str, reason: str) -> None:
        """List one row of the input. ``reason`` quotes ids, dates, views, splits and paths alone."""
        self._single.append((file, row, id, field, reason, kind, 1, None))

    def divert(
        self,
        frame: pl.DataFrame,
        field: str,
        where: pl.Expr,
        reason: str | pl.Expr,
        kind: str = BAD,
        value: pl.Expr | None = None,
    ) -> pl.DataFrame:
        """List the rows of a frame for which ``where`` holds, and give the others.

        Args:
            frame: has the columns ``file``, ``row``, ``id`` and ``rows``.
            value: what is refused, where it may be quoted; in the counts of reasons it is left out.
        """
        said = pl.lit(reason) if isinstance(reason, str) else reason
        columns = {"field": pl.lit(field), "reason": said, "kind": pl.lit(kind), "value": value}
        marked = frame.with_columns(where.fill_null(False).alias("_where"))
        self.list_rows(marked.with_columns(**columns).filter("_where"))
        return marked.filter(~pl.col("_where")).drop("_where")

    def list_rows(self, rows: pl.DataFrame) -> None:
        """List rows that have the columns of :data:`PROBLEM_SCHEMA` and ``value``."""
        if rows.height:
            schema = PROBLEM_SCHEMA | {"value": pl.String()}
            rows = rows.with_columns(mapped("id", quoted))
            self._listed.append(rows.select(pl.col(name).cast(kind) for name, kind in schema.items()))

    @property
    def problems(self) -> pl.DataFrame:
        """The list: :data:`PROBLEM_SCHEMA`, and ``value``."""
        schema = PROBLEM_SCHEMA | {"value": pl.String()}
        return pl.concat([pl.DataFrame(self._single, schema, orient="row"), *self._listed])

    def rows(self, kind: str) -> int:
        """Rows of the input that are listed as of one kind."""
        return int(self.problems.filter(kind=kind)["rows"].sum())

    def reasons(self, kind: str) -> Counter[str]:
        """How often each reason was listed, the field of bad rows before it; a line of no row counts as one."""
        listed = self.problems.filter(kind=kind)
        names = pl.format("{}: {}", "field", "reason") if kind == BAD else pl.col("reason")
        counts = listed.group_by(names.alias("name")).agg(pl.col("rows").clip(lower_bound=1).sum())
        return Counter(dict(counts.iter_rows()))

    def write(self, path: Path) -> None:
        """Write ``problems.csv``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._shown().select(list(PROBLEM_SCHEMA)).with_columns(pl.col(pl.String).replace("", None)).write_csv(path)

    def message(self, allowed: int, table: Path) -> str:
        """What an error says when more rows are bad than ``allowed``, or when no record is left.

        Args:
            table: where all rows are listed.
        """
        reasons = self.reasons(BAD)
        bad = reasons.total()
        if bad <= allowed:
            listed = [*most_frequent(reasons).items(), *most_frequent(self.reasons(LEFT_OUT)).items()]
            met = "; ".join(f"{count} × {reason}" for reason, count in listed[:SHOWN]) or "the input has no rows"
            return f"no usable record is left: {met} (all rows are in {table})"
        shown = self._shown().filter(kind=BAD).head(SHOWN)
        lines = [f"{row['file']} {row['row']} {row['field']}: {row['reason']}" for row in shown.to_dicts()]
        more = f"\n  ... and {bad - len(lines)} more" if bad > len(lines) >= SHOWN else ""
        return (
            f"{bad} unusable row{'s' * (bad != 1)}, corpus.max_bad_rows allows {allowed}; fix them, or raise "
            f"corpus.max_bad_rows to exclude and list them (all are in {table})\n  " + "\n  ".join(lines) + more
        )

    def _shown(self) -> pl.DataFrame:
        """The list with the refused values in its reasons."""
        named = pl.coalesce(pl.format("{}, {}", "value", "reason"), "reason")
        return self.problems.with_columns(reason=named)


def most_frequent(counts: Counter[str]) -> dict[str, int]:
    """Counts, the largest first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
