"""Reader of a table of one's own studies: CSV, Parquet or JSONL, one row per image (:mod:`pacer.data.readers.studies`).

What is asked of the columns is checked before anything is read; a file that is damaged anywhere is refused as a
whole, with the row, because polars would fill up short rows and drop late columns.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from pacer.config import Corpus
from pacer.config.corpus import TableOfStudies
from pacer.core.errors import DataError
from pacer.data.readers.studies import COLUMNS, REPORT, REQUIRED, TEXTS, examinations
from pacer.data.rows import Notes, Row, check_roles
from pacer.data.source import Source
from pacer.data.tables import CsvForm, open_table, shown_columns


def read(source: Source, config: Corpus, notes: Notes) -> Iterator[Row]:
    """Every study of the table, and every row that is part of none; ``notes`` gets ``unknown_fields`` besides.

    Raises:
        DataError: the source has no table, the file is damaged, or its columns are not those that ``config`` names.
    """
    check_roles(source.files, "table")
    path = source.files["table"]
    loaded = _load(path, config.table, notes)
    notes.read["table"] += loaded.height
    return examinations(loaded, str(path), "table", config, notes)


def _load(path: Path, config: TableOfStudies, notes: Notes) -> pl.DataFrame:
    """The columns of the table that have a meaning, under our names, and ``row``.

    Args:
        notes: gets the columns that have no meaning.

    Raises:
        DataError: the file is damaged or of an unknown kind, or its columns are not those that are asked for.
    """
    columns = config.columns
    form = CsvForm(config.delimiter, config.encoding, "corpus.table.")
    table = open_table(path, (*COLUMNS, *columns.values()), form)
    ours = _resolve(path, table.columns, columns)
    unknown = {column: count for column, count in table.counts.items() if column not in ours.values()}
    frame = table.frame(list(ours.values()), decimals=(columns.get("time", "time"),))
    for column, count in sorted(unknown.items()):
        notes.count("unknown_fields", "table", column, count)
    for our, theirs in ours.items():
        if frame[theirs].dtype.is_nested() or frame[theirs].dtype in (pl.Binary, pl.Object):
            raise DataError(f"{path}: column {theirs} holds {frame[theirs].dtype}; {our} must be text or a number")
    ours_alone = frame.select(pl.col(theirs).alias(our) for our, theirs in ours.items())
    texts = ours_alone.select(name for name in ours if name in TEXTS).with_columns(cs.float().fill_nan(None))
    return ours_alone.with_columns(texts.cast(pl.String), row=pl.Series(table.places, dtype=pl.Int64))


def _resolve(path: Path, have: list[str], columns: dict[str, str]) -> dict[str, str]:
    """Our names of the columns that the table has, with the table's names for them.

    A name that is not mapped stands for itself, unless the column of that name is mapped to another one.
    """
    problems = [
        f"corpus.table.columns has the unknown key {name}{_closest(name, COLUMNS)}, not one of {', '.join(COLUMNS)}"
        for name in columns
        if name not in COLUMNS
    ]
    problems += [
        f"no column {theirs} for {name}{_closest(theirs, have)}"
        for name, theirs in columns.items()
        if name in COLUMNS and theirs not in have
    ]
    taken = Counter(columns.values())
    problems += [f"corpus.table.columns names column {column} more than once" for column in taken if taken[column] > 1]
    ours = {name: columns.get(name, name) for name in COLUMNS if name in columns or name not in taken}
    ours = {name: theirs for name, theirs in ours.items() if theirs in have}
    problems += [
        f"no column for {name}{_closest(name, have)}" for name in REQUIRED if name not in ours and name not in columns
    ]
    if not any(name in ours or name in columns for name in REPORT):
        problems.append("no column for findings or impression")
    counted = Counter(have)
    problems += [f"the table has column {column} more than once" for column in ours.values() if counted[column] > 1]
    if problems:
        raise DataError(
            f"{path}: {'; '.join(problems)}. Columns of the table: {shown_columns(have)}; "
            "map yours in corpus.table.columns"
        )
    return ours


def _closest(name: str, names: Any) -> str:
    found = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {found[0]}?)" if found else ""
