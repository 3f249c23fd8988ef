"""Account of the input rows: each is used, beyond ``corpus.limit``, or listed in
``problems.csv``.

Readers and later steps return :class:`Rows`: the rows in use, and lines with a reason for the
others. The :class:`Account` of these lines is made when all steps are done.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pacer.tables.values import mapped, quoted

#: Kind of the excluded rows that cannot be used.
BAD = "bad"
#: Kind of the excluded rows that are valid, but hold nothing to use, or do not fit the settings.
LEFT_OUT = "left out"
#: Kind of the excluded rows of an examination that has no record, but whose report can be another
#: one's previous report.
PRIOR_ONLY = "previous report only"
#: Columns of ``problems.csv``. ``row``: ``line 3`` of a table, ``row 3`` of Parquet (from 1),
#: ``train[3]`` of JSON (from 0). ``rows``: number of input rows that the line covers; 0 if they
#: still yield other records.
PROBLEM_SCHEMA: dict[str, pl.DataType] = dict.fromkeys(
    ("file", "row", "id", "field", "reason", "kind"), pl.String()
)
PROBLEM_SCHEMA["rows"] = pl.Int64()
#: The list keeps the refused value, if it may be quoted, separate from the reason, so that reasons
#: can be counted.
_LIST_SCHEMA = PROBLEM_SCHEMA | {"value": pl.String()}
#: Maximum number of reasons in an error message.
_SHOWN = 10


#: A fault: the field, the message, and the refused value if messages may quote it.
FAULT = pl.Struct({"field": pl.String(), "reason": pl.String(), "value": pl.String()})


def fault_where(
    where: pl.Expr, field: str, reason: str | pl.Expr, value: pl.Expr | None = None
) -> pl.Expr:
    """Return the fault of the rows for which ``where`` holds; null for the others.

    Args:
        value: the refused value, if messages may quote it.
    """
    fault = pl.struct(
        field=pl.lit(field),
        reason=pl.lit(reason) if isinstance(reason, str) else reason,
        value=pl.lit(None) if value is None else value,
    )
    return pl.when(where).then(fault.cast(FAULT))


class Rows(NamedTuple):
    """The rows of an input."""

    #: The rows in use.
    used: pl.DataFrame
    #: The lines of ``problems.csv``: rows that are not in use, and doubtful rows.
    listed: pl.DataFrame = pl.DataFrame(schema=_LIST_SCHEMA)
    #: The result of :func:`pacer.corpus.images.inspect_images`, if the reader has called it.
    headers: pl.DataFrame | None = None

    def with_columns(self, *columns: Any, **named: Any) -> "Rows":
        """Add columns to the rows in use."""
        return self._replace(used=self.used.with_columns(*columns, **named))

    def exclude(
        self,
        field: str,
        where: pl.Expr,
        reason: str | pl.Expr,
        kind: str = BAD,
        value: pl.Expr | None = None,
    ) -> "Rows":
        """List the rows in use for which ``where`` holds, and keep the others.

        Args:
            field: the column that is at fault; empty if none is.
            kind: ``BAD``, ``LEFT_OUT`` or ``PRIOR_ONLY``.
            reason: may quote only ids, dates, views, splits and paths.
            value: the refused value, if it may be quoted, or where it occurred first.
        """
        is_excluded = self.used.select(where.fill_null(False)).to_series()
        if not is_excluded.any():
            return self
        lines = self.used.with_columns(
            field=pl.lit(field),
            reason=pl.lit(reason) if isinstance(reason, str) else reason,
            kind=pl.lit(kind),
            value=value,
        )
        rows = self._replace(used=self.used.filter(~is_excluded))
        return rows.with_lines(lines.filter(is_excluded))

    def flag(
        self, doubtful: pl.DataFrame, field: pl.Expr, reason: pl.Expr, value: pl.Expr
    ) -> "Rows":
        """List doubtful rows, which stay in use."""
        lines = doubtful.with_columns(
            field=field, reason=reason, kind=pl.lit("doubted"), rows=pl.lit(0), value=value
        )
        return self.with_lines(lines)

    def with_lines(self, lines: pl.DataFrame) -> "Rows":
        """Add lines with the columns ``file``, ``row``, ``id``, ``field`` and ``reason``. ``kind``,
        ``rows`` and ``value`` are optional."""
        defaults = {"kind": pl.lit(BAD), "rows": pl.lit(1), "value": pl.lit(None)}
        absent = {name: value for name, value in defaults.items() if name not in lines.columns}
        lines = lines.with_columns(**absent).with_columns(mapped("id", quoted))
        lines = lines.select(pl.col(name).cast(kind) for name, kind in _LIST_SCHEMA.items())
        return self._replace(listed=pl.concat([self.listed, lines]))


@dataclass
class Notes:
    """Counts of the rows that were read, and of observations about them."""

    #: Number of rows read, by input (a context, or the role of a file).
    read: Counter[str] = field(default_factory=Counter)
    #: Number of rows whose examinations are beyond ``corpus.limit``.
    beyond_limit: int = 0
    #: Number of examinations whose previous report was empty after cleaning, before
    #: ``corpus.limit``, without those that have no context left.
    empty_priors: int = 0
    #: By context without a previous report: how many targets presuppose one, and how many targets
    #: there are.
    wording: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Other observations: ``{topic: {input: {value: count}}}``.
    topics: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)

    def count(self, topic: str, source: str, value: str, number: int = 1) -> None:
        """Count ``value`` under ``topic`` for one input."""
        if number:
            self.topics.setdefault(topic, {}).setdefault(source, Counter())[value] += number

    def count_first(
        self, topic: str, source: str, values: Iterable[tuple[str, str]], named: int = 1
    ) -> None:
        """Count each value, and name the first ids, rows or paths that have it. ``values``: pairs
        of a value and an id, row or path."""
        owners_of: dict[str, list[str]] = {}
        for value, owner in values:
            owners_of.setdefault(value, []).append(owner)
        for value, owners in owners_of.items():
            first = ", ".join(map(quoted, owners[:named]))
            self.count(topic, source, f"{value} (first: {first})", len(owners))

    def null_if_absent(
        self, frame: pl.DataFrame, name: str, is_absent: Callable[[str], bool], key: str = "id"
    ) -> pl.DataFrame:
        """Set texts such as ``N/A`` in a column to null, and count them as ``absent_words``, with
        the first by the column ``key``."""
        absent = frame.select(mapped(name, is_absent, pl.Boolean).fill_null(False)).to_series()
        if not absent.any():
            return frame
        written = frame.filter(absent, pl.col(name).str.contains(r"\S"))[key]
        self.count_first("absent_words", "texts", ((name, first) for first in written))
        return frame.with_columns(pl.when(~absent).then(name).alias(name))


class Account(NamedTuple):
    """The lines of ``problems.csv`` of a whole corpus, and its counts."""

    listed: pl.DataFrame
    notes: Notes

    def rows(self, kind: str) -> int:
        """Return the number of input rows that are listed under a kind."""
        return int(self.listed.filter(kind=kind)["rows"].sum())

    def reasons(self, kind: str) -> dict[str, int]:
        """Count each listed reason, the most frequent first; for bad rows the field precedes the
        reason. A line that covers no row counts as one."""
        reason = pl.format("{}: {}", "field", "reason") if kind == BAD else pl.col("reason")
        groups = self.listed.filter(kind=kind).group_by(reason.alias("reason"))
        counts = groups.agg(number=pl.col("rows").clip(lower_bound=1).sum())
        return dict(counts.sort("number", "reason", descending=[True, False]).iter_rows())

    def write(self, path: Path) -> None:
        """Write ``problems.csv``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = self.listed.with_columns(_reason_with_value()).select(list(PROBLEM_SCHEMA))
        lines.with_columns(pl.col(pl.String).replace("", None)).write_csv(path)

    def message(self, allowed: int, table: Path) -> str:
        """Return the error message for more bad rows than ``allowed``, or for no remaining record;
        ``table`` is the path of the list of all rows."""
        reasons = self.reasons(BAD)
        num_bad = sum(reasons.values())
        if num_bad <= allowed:
            all_reasons = [*reasons.items(), *self.reasons(LEFT_OUT).items()]
            counts = "; ".join(f"{count} × {reason}" for reason, count in all_reasons[:_SHOWN])
            return (
                f"no usable records are left: {counts or 'the input has no rows'} (every row is "
                f"listed in {table})"
            )
        problems = self.listed.filter(kind=BAD)
        alike = problems.group_by("field", "reason", maintain_order=True)
        alike = alike.agg(pl.first("file", "row", "value"), others=pl.len() - 1)
        examples = [
            f"\n  {row['file']} {row['row']} {row['field']}: {row['reason']}"
            + (f" (and {row['others']:,} more)" if row["others"] else "")
            for row in alike.head(_SHOWN).with_columns(_reason_with_value()).to_dicts()
        ]
        if alike.height > len(examples):
            examples.append(f"\n  ... and {alike.height - len(examples)} more reasons")
        rows = "row" if num_bad == 1 else "rows"
        lines = "line" if problems.height == 1 else "lines"
        return (
            f"{num_bad} unusable {rows}, but corpus.max_bad_rows allows {allowed}; fix them, or "
            f"raise corpus.max_bad_rows to exclude them (all are listed in {table}: "
            f"{problems.height} {lines}){''.join(examples)}"
        )


def _reason_with_value() -> pl.Expr:
    return pl.coalesce(pl.format("{}, {}", "value", "reason"), "reason").alias("reason")
