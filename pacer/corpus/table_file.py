"""The file behind a table of studies: CSV, Parquet or JSONL, read strictly, its columns under our names.

What is asked of the columns is checked before anything is read; a file that is damaged anywhere is refused as a
whole, with the row, because polars would fill up short rows and drop late columns.
"""

from __future__ import annotations

import difflib
import gzip
import json
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.errors import DataError
from pacer.corpus.csv_file import csv_rows, is_csv, separator_of
from pacer.corpus.dates import as_text
from pacer.corpus.rows import Notes, Unusable, kind, sound

#: Our column names: those that a table must have, and those that it may have.
REQUIRED = ("subject", "study", "view", "image")
REPORT = ("findings", "impression")  # at least one of them
OPTIONAL = ("date", "time", "indication", "history", "split")
COLUMNS = (*REQUIRED, *REPORT, *OPTIONAL)
#: Columns whose text is taken as it stands.
TEXTS = (*REPORT, "indication", "history")

#: Lines of a JSONL file that are held as Python objects at a time.
_LINES = 20_000


def load_table(path: Path, columns: dict[str, str], notes: Notes) -> pl.DataFrame:
    """The columns of the table that have a meaning, under our names.

    Args:
        columns: our name -> the table's, where they differ. notes: gets the columns that have no meaning.

    Raises:
        DataError: the file is damaged or of an unknown kind, or its columns are not those that are asked for.
    """
    name = path.name.lower()
    if not path.is_file():
        raise DataError(f"{path} is not a file; corpus.table.file must name one table")
    try:
        if is_csv(path):
            header, height = _check_csv(path)
            ours = _resolve(path, header, columns)
            table = _read_csv(path, list(ours.values()), height)
            unknown = dict.fromkeys(set(header) - set(ours.values()), table.height)
        elif name.endswith(".parquet"):
            schema = pl.read_parquet_schema(path)
            ours = _resolve(path, list(schema), columns)
            table = pl.read_parquet(path, columns=list(ours.values()), glob=False, hive_partitioning=False)
            unknown = dict.fromkeys(set(schema) - set(ours.values()), table.height)
        elif name.endswith((".jsonl", ".jsonl.gz")):
            table, met = _read_jsonl(path, {*COLUMNS, *columns.values()}, columns.get("time", "time"))
            ours = _resolve(path, list(met), columns)
            unknown = {column: count for column, count in met.items() if column not in ours.values()}
        else:
            raise DataError(
                f"{path}: the kind of a table is told by its name: .csv, .tsv, .jsonl (also .gz) or .parquet"
            )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {_without_content(error)}") from None
    for column, count in sorted(unknown.items()):
        notes.count("unknown_fields", "table", column, count)
    for our, theirs in ours.items():
        if table[theirs].dtype.is_nested() or table[theirs].dtype in (pl.Binary, pl.Object):
            raise DataError(f"{path}: column {theirs} holds {table[theirs].dtype}; {our} must be text or a number")
    return pl.DataFrame(
        [(as_text(table[theirs]) if our in TEXTS else table[theirs]).alias(our) for our, theirs in ours.items()]
    )


def _resolve(path: Path, have: list[str], columns: dict[str, str]) -> dict[str, str]:
    """Our names of the columns that the table has, with the table's names for them.

    A name that is not mapped stands for itself, unless the column of that name is mapped to another one.
    """
    problems = [
        f"corpus.table.columns has {name}, which is none of {', '.join(COLUMNS)}{_closest(name, COLUMNS)}"
        for name in columns
        if name not in COLUMNS
    ]
    problems += [
        f"there is no column {theirs} for {name}{_closest(theirs, have)}"
        for name, theirs in columns.items()
        if name in COLUMNS and theirs not in have
    ]
    taken = Counter(columns.values())
    problems += [f"corpus.table.columns names column {column} more than once" for column in taken if taken[column] > 1]
    ours = {name: columns.get(name, name) for name in COLUMNS if name in columns or name not in taken}
    ours = {name: theirs for name, theirs in ours.items() if theirs in have}
    problems += [
        f"there is no column for {name}{_closest(name, have)}"
        for name in REQUIRED
        if name not in ours and name not in columns
    ]
    if not any(name in ours or name in columns for name in REPORT):
        problems.append("there is no column for findings or impression")
    counted = Counter(have)
    problems += [f"the table has column {column} more than once" for column in ours.values() if counted[column] > 1]
    if problems:
        raise DataError(
            f"{path}: {'; '.join(problems)}. The table has: {', '.join(have) or 'no columns'}; "
            "name its columns in corpus.table.columns"
        )
    return ours


def _closest(name: str, names: Any) -> str:
    found = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def _check_csv(path: Path) -> tuple[list[str], int]:
    """The header of a CSV file and its number of rows, blank lines included, once all of it has been read strictly:
    polars fills up short rows."""
    rows = csv_rows(path)
    return next(rows, []), sum(1 for _ in rows)


def _read_csv(path: Path, columns: list[str], height: int) -> pl.DataFrame:
    """The columns as text, through polars, which is fast but reads some layouts in another way than the strict pass."""
    try:
        table = pl.read_csv(path, separator=separator_of(path), infer_schema=False, glob=False, columns=columns)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        table = None
    if table is None or table.height != height:
        raise DataError(
            f"{path}: its {height} rows can be told apart in two ways; put every cell that holds a quote or a line end "
            "into quotes, double the quotes in it, and end all lines alike"
        )
    return table


def _read_jsonl(path: Path, wanted: set[str], decimal: str) -> tuple[pl.DataFrame, Counter[str]]:
    """Columns as text, and how many lines have each field. Numbers stay as they are written in the field ``decimal``;
    elsewhere 7.0 is 7, because an id does not change its name when its column has gaps."""
    met: Counter[str] = Counter()
    schema = dict.fromkeys(sorted(wanted), pl.String())
    frames = [pl.DataFrame(schema=schema)]
    held: list[list[str | None]] = []
    with (gzip.open if path.name.lower().endswith(".gz") else open)(path, "rt", encoding="utf-8-sig") as file:
        try:
            for number, line in enumerate(file, start=1):
                if line.isspace():
                    continue
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise DataError(f"{path}, line {number}: expected an object, got {kind(record)}")
                met.update(record.keys())
                held.append([_json_text(record.get(name), name, name == decimal) for name in schema])
                if len(held) == _LINES:
                    frames.append(pl.DataFrame(held, schema=schema, orient="row"))
                    held = []
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}: not JSON ({error.msg})") from None
        except Unusable as error:
            raise DataError(f"{path}, line {number}, {error.field}: {error.reason}") from None
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not UTF-8 ({error.reason}); save the table as UTF-8") from None
        except (ValueError, RecursionError):
            raise DataError(f"{path}, line {number}: JSON with too long a number, or too deep") from None
    frames.append(pl.DataFrame(held, schema=schema, orient="row"))
    return pl.concat(frames).select(name for name in schema if name in met), met


def _json_text(value: Any, name: str, decimal: bool) -> str | None:
    if value is None or value != value:  # null or NaN
        return None
    if isinstance(value, str):
        return sound(value, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unusable(name, f"expected text or a number, got {kind(value)}")
    whole = isinstance(value, float) and value.is_integer() and not decimal
    return str(int(value) if whole else value)


def _without_content(error: BaseException) -> str:
    """The first line of a message up to where it begins to quote."""
    return re.split(r"[`'\"]", str(error).partition("\n")[0])[0].strip(" :") or type(error).__name__
