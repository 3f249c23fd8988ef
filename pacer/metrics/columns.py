"""The user's numbers by record, next to the scores: columns of a file, and functions of references
and reports.

Numbers become scores, in tables and comparisons too; the texts of a file become groups.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.metadata import entry_points, packages_distributions, version
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np
import polars as pl

from pacer.core.errors import ConfigError, DataError
from pacer.data.ids import check_pairs
from pacer.data.tables import is_index, open_table, shown_columns
from pacer.metrics.options import Function

_ID = "record_id"
#: Spellings of a missing value in CSV. NaN does not count: what computed it may have failed.
_ABSENT = [
    "",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "None",
    "none",
    "NONE",
    "null",
    "Null",
    "NULL",
    "<NA>",
    "NaT",
    "nat",
]
#: Numbers as people and spreadsheets write them: ``0.5``, ``0,5``, ``50 %``.
_NUMBER = re.compile(r"[\s+−-]*\d*[.,]?\d+(e[+-]?\d+)?\s*[%f]?\s*", re.IGNORECASE)
#: Endings that mark the columns of controls.
_OF_CONTROLS = ("_hypothesis", "_labels", "_unchanged")
#: Maximum number of distinct values in a column of texts; with more, the groups are too small to be
#: informative.
_MOST_VALUES = 20
#: The entry points by which an installed package offers metrics.
ENTRY_POINTS = "pacer.scores"


def read_score_columns(path: str | Path, ids: Sequence[str]) -> pl.DataFrame:
    """Read the columns of a table with ``record_id``, in the order of ``ids``, the scored records,
    as Float64 or String, null for empty cells. Raises a DataError if the file cannot be read; an id
    is missing, extra or repeated; a column holds anything but finite numbers or texts, or too many
    different texts."""
    read = open_table(path)
    names = [name for name in read.columns if not is_index(name)]
    if len(set(names)) < len(names):
        raise DataError(f"{path} has duplicate column names")
    if _ID not in names:
        shown = shown_columns(names)
        raise DataError(
            f"{path} needs a column {_ID} with the ids of the scored records; it has {shown}"
        )
    table = pl.DataFrame([_series(name, read.values(name)) for name in names])
    table = table.with_columns(pl.col(_ID).cast(pl.String))
    check_pairs(ids, table[_ID].to_list(), "the scored records", str(path))
    table = pl.DataFrame({_ID: ids}).join(table, on=_ID, how="left", maintain_order="left")
    return pl.DataFrame([_checked(column, table[_ID], path) for column in table.drop(_ID)])


def check_names(names: Sequence[str], taken: Collection[str]) -> None:
    """Raise a :class:`DataError` if a column or metric of the user, or the count of its values, has
    no name, that of another one or one that is ``taken``."""
    for place, name in enumerate(names):
        others = {*taken, *names[:place], *names[place + 1 :]}
        if others & {name, count_of(name)} or not name.strip() or name.endswith(_OF_CONTROLS):
            raise DataError(
                f"rename your column or metric {name!r}: the name must not be empty, and neither "
                f"it nor {count_of(name)} (the number of its values) may be the name of a score, "
                "an id or a cases.parquet column"
            )


def metrics_of(given: Mapping[str, Function] | Iterable[str]) -> dict[str, Function]:
    """Return functions by name; those that are only named are of installed packages, their
    :data:`ENTRY_POINTS`. Raises a ConfigError if no package offers a metric of this name, or it
    cannot be imported."""
    if isinstance(given, Mapping):
        return dict(given)
    offered, functions = {point.name: point for point in entry_points(group=ENTRY_POINTS)}, {}
    for name in [given] if isinstance(given, str) else given:
        if name not in offered:
            known = ", ".join(offered) or "none"
            raise ConfigError(f"metrics: {ENTRY_POINTS} has no entry point {name}; known: {known}")
        try:
            functions[name] = offered[name].load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"metrics: {name} ({offered[name].value}) cannot be imported: {error}"
            ) from None
    return functions


def _origin(function: Function) -> str:
    """Return where a function is defined: its module, and the installed package that this is of,
    with its version."""
    module = getattr(function, "__module__", None) or type(function).__module__
    packages = packages_distributions().get(module.partition(".")[0], [])
    name = f"{module}:{getattr(function, '__qualname__', type(function).__qualname__)}"
    return " of ".join([name, *(f"{package} {version(package)}" for package in packages[:1])])


def metric_columns(
    metrics: Mapping[str, Function], cases: pl.DataFrame
) -> tuple[list[pl.Series], dict[str, str]]:
    """Return the numbers of each metric for ``cases``, which have ``record_id``, ``reference`` and
    ``hypothesis``; and what it means and where it is defined, by name. Raises a DataError if a
    function fails, or returns anything but one finite number for each pair. The message has no text
    of a report."""
    columns, meanings = [], {}
    for name, function in metrics.items():
        origin = _origin(function)
        where, meanings[name] = f"metrics: {name} ({origin})", f"mean of your score, {origin}"
        try:
            values = function(cases["reference"].to_list(), cases["hypothesis"].to_list())
            numbers = np.asarray(values)
        except Exception as error:  # its message could hold a report
            file, line, *_ = extract_tb(error.__traceback__)[:2][-1]
            place = f"{type(error).__name__} ({Path(file).name}, line {line})"
            raise DataError(
                f"{where} raised {place}; it is called once with two lists of strings"
            ) from None
        if numbers.shape != (len(cases),) or numbers.dtype.kind not in "biuf":
            returned = f"{type(values).__name__}, {numbers.dtype}, of shape {numbers.shape}"
            raise DataError(
                f"{where}: expected {len(cases)} numbers, one for each pair of reports, got "
                f"{returned}"
            )
        if len(bad := np.flatnonzero(~np.isfinite(numbers))):
            record, value = cases["record_id"][int(bad[0])], numbers[bad[0]]
            raise DataError(
                f"{where}: expected a finite number for each pair of reports, got {value} for "
                f"{record}"
            )
        columns.append(pl.Series(name, numbers.astype(float)))
    return columns, meanings


def column_scores(columns: pl.DataFrame) -> dict[str, float | None]:
    """Return the mean of each numeric column over the records that have a value, and their number
    as ``{name}_n``."""
    scores: dict[str, float | None] = {}
    for name in names_by_kind(columns)["scores"]:
        numbers = columns[name].drop_nulls().to_numpy()
        scores |= {
            name: float(numbers.mean()) if len(numbers) else None,
            count_of(name): len(numbers),
        }
    return scores


def count_of(name: str) -> str:
    """Return the key of the number of records that have a value in a column."""
    return f"{name}_n"


def names_by_kind(columns: pl.DataFrame) -> dict[str, list[str]]:
    """Return the names of the columns that are ``scores`` and of those that are ``groups``."""
    scores = [column.name for column in columns if column.dtype.is_numeric()]
    return {"scores": scores, "groups": [name for name in columns.columns if name not in scores]}


def _series(name: str, values: Sequence[Any]) -> pl.Series:
    """Return a column as it was written; texts that are all numbers, which CSV cannot tell apart,
    become numbers."""
    texts = [None if isinstance(text, str) and text.strip() in _ABSENT else text for text in values]
    column = pl.Series(name, texts if name != _ID else values, strict=False)
    if name == _ID or column.dtype not in (pl.String, pl.Null):
        return column
    column = column.cast(pl.String)
    if (words := set(column.drop_nulls().str.to_lowercase())) and words <= {"true", "false"}:
        return column.str.to_lowercase()
    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == column.null_count() else column


def _checked(column: pl.Series, ids: pl.Series, path: str | Path) -> pl.Series:
    where = f"{path}, column {column.name}"
    if column.dtype.is_numeric():
        numbers = column.cast(pl.Float64)
        if len(unfit := ids.filter(numbers.is_finite().not_().fill_null(False))):
            raise DataError(
                f"{where}: record {unfit[0]} has a number that is not finite; leave the cell empty"
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
    if (count := texts.drop_nulls().n_unique()) > _MOST_VALUES:
        raise DataError(
            f"{where} has {count} distinct values; use numbers (a score), or up to {_MOST_VALUES} "
            "groups"
        )
    return texts
