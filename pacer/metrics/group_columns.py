"""What records are grouped by, besides what their own table says: the age of the previous report, and columns of a
user's own, such as sex and age band."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pacer.core.errors import DataError
from pacer.metrics.cases import GROUP
from pacer.params.score import Groups
from pacer.records.mimic import bare_id
from pacer.tables.table import open_table, shown_columns

#: Values that a column may have; of more no one is large enough to say anything.
_VALUES = 20


def read_groups(table: Groups) -> pl.DataFrame:
    """The ids of the table (``bare``: without MIMIC's letter), and its columns named as
    :data:`~pacer.metrics.cases.GROUP` says.

    Raises:
        DataError: the table is damaged or lacks a column.
    """
    file = open_table(table.file, (table.column, *table.columns))
    missing = [name for name in (table.column, *table.columns) if name not in file.columns]
    if missing:
        raise DataError(
            f"{table.file} has no column {missing[0]} (score.groups); it has: {shown_columns(file.columns)}"
        )
    texts = file.frame(list(dict.fromkeys((table.column, *table.columns)))).cast(pl.String)
    texts = texts.with_columns(pl.all().str.strip_chars().replace("", None))
    return texts.select(_bare(table.column), *(pl.col(name).alias(f"{GROUP}{name}") for name in table.columns))


def _bare(column: str) -> pl.Expr:
    return pl.col(column).map_elements(bare_id, return_dtype=pl.String).alias("bare")


def with_groups(records: pl.DataFrame, table: Groups) -> pl.DataFrame:
    """The records with the columns of :func:`read_groups`.

    Raises:
        DataError: an id has two values, a column has more than 20, or no record is in the table.
    """
    ids = records.select(table.id).unique().with_columns(_bare(table.id))
    groups = ids.join(read_groups(table), on="bare").drop("bare").unique()
    if records[table.id].null_count() == len(records):
        raise DataError(f"score.groups: no record has a {table.id}; name that column so, or choose another id")
    if groups.is_empty():
        raise DataError(f"{table.file}: no record has a {table.id} of its column {table.column}; name another column")
    if groups[table.id].n_unique() < groups.height:
        twice = groups.filter(pl.col(table.id).is_duplicated())[table.id].min()
        raise DataError(f"{table.file} has different values for {table.id} {twice}; give each one row, or equal ones")
    for name in table.columns:
        if (count := groups[f"{GROUP}{name}"].n_unique()) > _VALUES:
            raise DataError(f"{table.file}: column {name} has {count} values, more than {_VALUES}; give bands")
    return records.join(groups, on=table.id, how="left", maintain_order="left")


def with_prior_days(records: pl.DataFrame, priors: Path) -> pl.DataFrame:
    """The records with ``prior_days``, the days since the previous report of those that have one; ``priors``: the
    corpus's ``priors.parquet``, which need not be there."""
    if not priors.is_file():
        return records
    days = pl.read_parquet(priors, columns=["study_id", "gap_days"]).rename({"gap_days": "prior_days"})
    found = records.join(days, on="study_id", how="left", maintain_order="left")
    return found.with_columns(pl.when(pl.col("prior_report").is_not_null()).then("prior_days"))
