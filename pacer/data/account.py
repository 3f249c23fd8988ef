"""Account of the input rows: each is used, beyond ``corpus.limit``, or listed in
``problems.csv``."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl

from pacer.data.values import mapped, quoted

#: Kinds of unused rows: rows that cannot be used, and valid rows that the settings exclude.
BAD, LEFT_OUT = "bad", "left out"
#: Columns of ``problems.csv``. ``row``: ``line 3`` of a table, ``row 3`` of Parquet (from 1),
#: ``train[3]`` of JSON (from 0). ``rows``: number of input rows that the line covers; 0 if they
#: still yield other records.
PROBLEM_SCHEMA: dict[str, pl.DataType] = dict.fromkeys(
    ("file", "row", "id", "field", "reason", "kind"), pl.String()
)
PROBLEM_SCHEMA["rows"] = pl.Int64()
#: The list keeps the refused value separate from the reason, so that reasons can be counted.
_LIST_SCHEMA = PROBLEM_SCHEMA | {"value": pl.String()}
#: Maximum number of reasons in an error message, and of further rows with the same reason.
_SHOWN, _PLACES = 10, 3


class Account:
    """List of the unused rows, and counts of other observations."""

    def __init__(self) -> None:
        self.read: Counter[str] = (
            Counter()
        )  # number of rows read, by input (a context, or the role of a file)
        self.beyond_limit = 0  # number of rows whose studies are beyond corpus.limit
        self.empty_priors = 0  # number of studies whose previous report was empty after cleaning
        # by context without a previous report, how many targets presuppose one, and how many
        # targets there are
        self.wording: dict[str, tuple[int, int]] = {}
        self.notes: dict[str, dict[str, Counter[str]]] = {}  # {topic: {input: {value: count}}}
        #: ``value``: the refused value, if it may be quoted.
        self.problems = pl.DataFrame(schema=_LIST_SCHEMA)

    def count(self, topic: str, source: str, value: str, number: int = 1) -> None:
        """Count ``value`` under ``topic`` for one input."""
        if number:
            self.notes.setdefault(topic, {}).setdefault(source, Counter())[value] += number

    def count_first(self, topic: str, source: str, values: Iterable[tuple[str, str]]) -> None:
        """Count each value, and name the first id or path that has it; ``values`` has pairs of
        both."""
        having: dict[str, list[str]] = {}
        for value, owner in values:
            having.setdefault(value, []).append(owner)
        for value, owners in having.items():
            self.count(topic, source, f"{value} (first: {quoted(owners[0])})", len(owners))

    def without_absent(
        self, frame: pl.DataFrame, name: str, is_absent: Callable[[str], bool]
    ) -> pl.DataFrame:
        """Set the texts of a column that only say that there is none to null, and count them as
        ``absent_words``."""
        absent = frame.select(mapped(name, is_absent, pl.Boolean).fill_null(False)).to_series()
        self.count_first("absent_words", "texts", ((name, id) for id in frame.filter(absent)["id"]))
        return frame.with_columns(pl.when(~absent).then(name).alias(name))

    def divert(
        self,
        frame: pl.DataFrame,
        field: str,
        where: pl.Expr,
        reason: str | pl.Expr,
        kind: str = BAD,
        value: pl.Expr | None = None,
    ) -> pl.DataFrame:
        """List the rows of a frame for which ``where`` holds, and return the others.

        Args:
            frame: has the columns ``file``, ``row`` and ``id``, and ``rows`` if a row can stand for
                several.
            reason: may quote only ids, dates, views, splits and paths. value: see :attr:`problems`.
        """
        is_listed = frame.select(where.fill_null(False)).to_series()
        if is_listed.any():
            reason = pl.lit(reason) if isinstance(reason, str) else reason
            listed = frame.with_columns(
                field=pl.lit(field), reason=reason, kind=pl.lit(kind), value=value
            )
            self.add(listed.filter(is_listed))
        return frame.filter(~is_listed)

    def flag(self, frame: pl.DataFrame, field: pl.Expr, reason: pl.Expr, value: pl.Expr) -> None:
        """List the rows of a frame, which are used, as doubtful; see :meth:`divert`."""
        doubt = {
            "field": field,
            "reason": reason,
            "kind": pl.lit("doubted"),
            "rows": pl.lit(0),
            "value": value,
        }
        self.add(frame.with_columns(**doubt))

    def add(self, rows: pl.DataFrame) -> None:
        """Add rows with the columns of :attr:`problems` to the list; ``kind``, ``rows`` and
        ``value`` are optional."""
        given = {"kind": pl.lit(BAD), "rows": pl.lit(1), "value": pl.lit(None)}
        rows = rows.with_columns(
            **{name: value for name, value in given.items() if name not in rows.columns}
        )
        rows = rows.with_columns(mapped("id", quoted))
        rows = rows.select(pl.col(name).cast(kind) for name, kind in _LIST_SCHEMA.items())
        self.problems = pl.concat([self.problems, rows])

    def rows(self, kind: str) -> int:
        """Return the number of input rows that are listed under a kind."""
        return int(self.problems.filter(kind=kind)["rows"].sum())

    def reasons(self, kind: str) -> dict[str, int]:
        """Count each listed reason, the most frequent first; for bad rows the field precedes the
        reason. A line that covers no row counts as one."""
        reason = pl.format("{}: {}", "field", "reason") if kind == BAD else pl.col("reason")
        listed = self.problems.filter(kind=kind).group_by(reason.alias("reason"))
        counts = listed.agg(number=pl.col("rows").clip(lower_bound=1).sum())
        return dict(counts.sort("number", "reason", descending=[True, False]).iter_rows())

    def write(self, path: Path) -> None:
        """Write ``problems.csv``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with_values = self.problems.with_columns(_reason_with_value()).select(list(PROBLEM_SCHEMA))
        with_values.with_columns(pl.col(pl.String).replace("", None)).write_csv(path)

    def message(self, allowed: int, table: Path) -> str:
        """Return the error message for more bad rows than ``allowed``, or for no remaining record;
        ``table`` is the path of the list of all rows."""
        reasons = self.reasons(BAD)
        bad = sum(reasons.values())
        if bad <= allowed:
            listed = [*reasons.items(), *self.reasons(LEFT_OUT).items()]
            counts = (
                "; ".join(f"{count} × {reason}" for reason, count in listed[:_SHOWN])
                or "the input has no rows"
            )
            return f"no usable records are left: {counts} (every row is listed in {table})"
        problems = self.problems.filter(kind=BAD)
        alike = problems.group_by("field", "reason", maintain_order=True)
        alike = alike.agg(pl.first("file", "row", "value"), others=pl.col("row").slice(1))
        lines = []
        for row in alike.head(_SHOWN).with_columns(_reason_with_value()).to_dicts():
            listed, others = ", ".join(row["others"][:_PLACES]), len(row["others"])
            also = (
                f" (also {listed}{', …' if others > _PLACES else ''}; {others:,} more)"
                if others
                else ""
            )
            lines.append(f"\n  {row['file']} {row['row']} {row['field']}: {row['reason']}{also}")
        more = (
            f"\n  ... and {alike.height - len(lines)} more reasons"
            if alike.height > len(lines)
            else ""
        )
        return (
            f"{bad} unusable row{'s' * (bad != 1)}, but corpus.max_bad_rows allows {allowed}; fix "
            f"them, or raise corpus.max_bad_rows to exclude them (all are listed in {table}: "
            f"{problems.height} line{'s' * (problems.height != 1)}){''.join(lines)}{more}"
        )


def _reason_with_value() -> pl.Expr:
    return pl.coalesce(pl.format("{}, {}", "value", "reason"), "reason").alias("reason")
