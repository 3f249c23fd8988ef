"""Strict reading of users' tables, one reader for each form of file.

A damaged file is refused as a whole, because the content after a stray quote or a truncation cannot
be trusted. Messages name the file, the line (the row in Parquet) and the column, and the expected
and actual kinds of value; they never quote a cell.
"""

import zlib
from pathlib import Path

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import numbered_jsonl
from pacer.tables.delimited import CsvForm, read_csv
from pacer.tables.shapes import read_json_table
from pacer.tables.sheets import read_sheet
from pacer.tables.table import SourceTable
from pacer.tables.values import shown


def open_table(
    path: str | Path, form: CsvForm | None = None, sheet: str | None = None
) -> SourceTable:
    """Read a table: ``.csv``, ``.tsv``, ``.json``, ``.jsonl`` (also ``.gz``), ``.parquet`` or
    ``.xlsx``; or a folder of ``.txt`` files, whose names are the ids of the texts.

    Args:
        form: the format of a CSV file.
        sheet: name of a workbook's sheet; None: the first.

    Raises:
        DataError: the file is missing, of another kind, or damaged; a CSV row has more or fewer
            cells than the header; or a JSON line is not an object.
    """
    path = Path(path)
    name = path.name.lower().removesuffix(".gz")
    try:
        if path.is_dir():
            return _read_folder(path)
        if name.endswith((".csv", ".tsv")):
            return read_csv(path, form or CsvForm())
        if path.name.lower().endswith(".parquet"):
            return _read_parquet(path)
        if path.name.lower().endswith((".xlsx", ".xlsm")):
            return read_sheet(path, sheet)
        if name.endswith(".json"):
            return read_json_table(path)
        if name.endswith((".jsonl", ".ndjson")):
            return _read_lines(path)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged, or its extension is wrong"
        raise DataError(f"{path} cannot be read: {reason}") from None
    raise DataError(
        f"{path} must be a table: .csv, .tsv, .json, .jsonl (also .gz), .parquet or .xlsx, or a "
        "folder of .txt files; save a spreadsheet as CSV (UTF-8)"
    )


def _read_lines(path: Path) -> SourceTable:
    lines = list(numbered_jsonl(path))
    for number, line in lines:
        if not isinstance(line, dict):
            raise DataError(f"{path}, line {number}: expected a JSON object, got {shown(line)}")
    columns = list(dict.fromkeys(name for _, line in lines for name in line))
    rows = [tuple(map(line.get, columns)) for _, line in lines]
    return SourceTable(path, "jsonl", columns, [number for number, _ in lines], rows)


def _read_folder(path: Path) -> SourceTable:
    """Read the ``.txt`` files of a folder by name, each without its last line end."""
    rows = []
    for file in sorted(path.glob("*.txt")):
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise DataError(f"{file}: not UTF-8; save it as UTF-8") from None
        rows.append((file.stem, text.removesuffix("\n")))
    if not rows:
        raise DataError(
            f"{path} cannot be read: it is a folder without .txt files (`pacer score-run "
            "--predictions` scores a folder of predictions)"
        )
    return SourceTable(path, "txt", ["id", "text"], range(1, len(rows) + 1), rows)


def _read_parquet(path: Path) -> SourceTable:
    """Read a Parquet file."""
    try:
        with open(path, "rb") as file:
            frame = pl.read_parquet(file)
    except pl.exceptions.PanicException:
        raise DataError(
            f"{path} has a column that polars cannot read, such as times with a zone like +05:30; "
            "write times in UTC, or save the table as CSV"
        ) from None
    return SourceTable(path, "parquet", frame.columns, range(1, frame.height + 1), frame.rows())
