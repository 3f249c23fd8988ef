"""Reader of a table of one's own studies: CSV, Parquet or JSONL, one row per image.

The rows go the way of :mod:`pacer.data.readers.image_rows`. What is asked of the columns is checked before anything is
read.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.data.account import Account
from pacer.data.readers.image_rows import COLUMNS, REPORT, REQUIRED, studies_of
from pacer.data.source import Source
from pacer.data.studies import check_roles
from pacer.data.tables import CsvForm, open_table, shown_columns


def read(source: Source, config: Corpus, account: Account) -> pl.DataFrame:
    """Every study of the table; ``account`` gets the topic ``unknown_fields`` besides.

    Raises:
        DataError: the source has no table, the file is damaged, or its columns are not those that ``config`` names.
    """
    check_roles(source.files, "table")
    path, columns = source.files["table"], config.table.columns
    form = CsvForm(config.table.delimiter, config.table.encoding, "corpus.table.")
    table = open_table(path, form)
    account.read["table"] += len(table.rows)
    names = _resolve(path, table.columns, columns)
    for column, count in table.counts.items():
        if column not in names.values():
            account.count("unknown_fields", "table", column, count)
    images = table.frame(list(names.values()), decimals=(columns.get("time", "time"),))
    images = images.rename(dict(zip(names.values(), names, strict=True)))
    images = images.with_columns(line=pl.Series(table.numbers, dtype=pl.Int64))
    return studies_of(images, str(path), table.unit, "table", config, account)


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


def _closest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
