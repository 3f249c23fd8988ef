"""A table of the user's columns by record: numbers, which become scores, and texts, which become
groups."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.errors import DataError
from pacer.tables.files import open_table
from pacer.tables.ids import check_pairs
from pacer.tables.table import shown_columns

_ID = "record_id"
#: Spellings of a missing value in CSV. NaN is not among them, because it may come from a failed
#: computation.
_ABSENT = {"", "#N/A", "<NA>", "N/A", "NA", "NONE", "NULL", "NaT", "None", "Null"}
_ABSENT |= {"n/a", "nat", "none", "null"}
#: Numbers as people and spreadsheets write them: ``0.5``, ``0,5``, ``50%``.
_NUMBER = re.compile(r"[\s+−-]*\d*[.,]?\d+(e[+-]?\d+)?\s*[%f]?\s*", re.IGNORECASE)
#: Maximum number of distinct values in a column of texts; with more, the groups are too small to be
#: informative.
_MOST_VALUES = 20


def read_columns(
    path: str | Path, ids: Sequence[str], key: str = _ID, only: str = ""
) -> pl.DataFrame:
    """Read the columns of a table with ``record_id``, or another ``key``, in the order of ``ids``,
    the scored records, as Float64 or String, null for empty cells. ``only``: the one column that is
    read. Raises a DataError if the file cannot be read; a column is missing; an id is missing,
    extra or repeated; a column holds anything but finite numbers or texts, or too many different
    texts."""
    file = open_table(path)
    names = file.data_columns()
    for name, what in ((key, " with the ids of the scored records"), (only or key, "")):
        if name not in names:
            shown = shown_columns(names)
            raise DataError(f"{path} needs a column {name}{what}; it has {shown}")
    names = [key, only] if only else names
    table = pl.DataFrame([_series(name, file.values(name)) for name in names])
    table = table.rename({key: _ID}).with_columns(pl.col(_ID).cast(pl.String))
    check_pairs(ids, table[_ID].to_list(), "the scored records", str(path))
    table = pl.DataFrame({_ID: ids}).join(table, on=_ID, how="left", maintain_order="left")
    columns = [_checked(column, table[_ID], path) for column in table.drop(_ID)]
    if only and columns[0].dtype == pl.String:
        raise DataError(f"{path}, column {only}: expected numbers")
    return pl.DataFrame(columns)


def _series(name: str, values: Sequence[Any]) -> pl.Series:
    """Return a column as it was written; texts that are all numbers become numbers, because CSV has
    only texts."""
    texts = [None if isinstance(text, str) and text.strip() in _ABSENT else text for text in values]
    column = pl.Series(name, texts if name != _ID else values, strict=False)
    if name == _ID or column.dtype not in (pl.String, pl.Null):
        return column
    column = column.cast(pl.String)
    words = set(column.drop_nulls().str.to_lowercase())
    if words and words <= {"true", "false"}:
        return column.str.to_lowercase()
    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == column.null_count() else column


def _checked(column: pl.Series, ids: pl.Series, path: str | Path) -> pl.Series:
    where = f"{path}, column {column.name}"
    if column.dtype.is_numeric():
        numbers = column.cast(pl.Float64)
        is_infinite = numbers.is_finite().not_().fill_null(False)
        if is_infinite.any():
            first = ids.filter(is_infinite)[0]
            raise DataError(
                f"{where}: record {first} has a number that is not finite; leave the cell empty"
            )
        return numbers
    if column.dtype == pl.Boolean:
        column = column.cast(pl.String)
    if column.dtype != pl.String:
        raise DataError(
            f"{where}: expected numbers (used as scores), or strings or booleans (used as groups)"
        )
    texts = column.str.strip_chars().replace("", None)
    if any(_NUMBER.fullmatch(text) for text in texts.drop_nulls()):
        is_word = texts.cast(pl.Float64, strict=False).is_null() & texts.is_not_null()
        raise DataError(
            f"{where} mixes numbers and words (the value of record {ids.filter(is_word)[0]} is not "
            "a number); use only numbers (a score), or only words (groups). Write a code such as "
            "3 as 'site 3'"
        )
    count = texts.drop_nulls().n_unique()
    if count > _MOST_VALUES:
        raise DataError(
            f"{where} has {count} distinct values; use numbers (a score), or up to {_MOST_VALUES} "
            "groups"
        )
    return texts
