"""Reports as other systems leave them: CSV, JSONL, JSON and Parquet, with ids or in an order, read strictly.

========================  ==================================================================================
CSV, TSV (also .gz)       a header with an id and a text column; or one column of texts without a header, as
                          R2Gen's ``res.csv`` and ``gts.csv``: paired by position
JSON                      ``{id: text}`` or ``{id: [text]}``, as LLM-RG4's and R2GenGPT's ``test_result.json`` and
                          ``test_refs.json``; or a list of objects
JSONL                     an object a line, as PACER's own predictions
Parquet                   an id and a text column, as PACER's ``records.parquet``
========================  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import read_json, read_jsonl
from pacer.corpus.csv_file import csv_rows, is_csv

#: Names of the column with the ids, and with the text, the first that a file has is taken.
ID_COLUMNS = ("record_id", "id", "study_id", "image_id")
REFERENCE_COLUMNS = ("reference", "report", "ground_truth", "findings", "text")
HYPOTHESIS_COLUMNS = ("hypothesis", "report", "prediction", "generated", "text")
#: What else a file of references may tell of its records.
EXTRA_COLUMNS = ("context", "split", "study_id", "subject_id", "report_raw", "findings_original")


@dataclass(frozen=True)
class ReportFile:
    """Rows of a file in its order. ``ids``: ``None`` where they are told by position alone; ``texts``: ``None`` for a
    report that is missing; ``columns``: which columns they came from; ``extra``: other columns that have a meaning."""

    path: Path
    ids: list[str] | None
    texts: list[str | None]
    columns: dict[str, str] = field(default_factory=dict)
    extra: dict[str, list[Any]] = field(default_factory=dict)

    def name(self, row: int) -> str:
        """A row in words, for errors."""
        return f"row {row + 1}" if self.ids is None else f"id {self.ids[row]}"


def read_reports(
    path: str | Path, text_columns: Sequence[str], id_column: str | None = None, text_column: str | None = None
) -> ReportFile:
    """Read a file of reports by the kind that its name tells.

    Args:
        text_columns: names to look for, :data:`REFERENCE_COLUMNS` or :data:`HYPOTHESIS_COLUMNS`.
        id_column, text_column: the columns (or keys) to take instead.

    Raises:
        DataError: the file is missing or of an unknown kind, a column is not there, or a row holds something else than
            text; what arrived, what was expected and the row are named.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} is not a file; expected reports as .csv, .tsv, .json, .jsonl or .parquet")
    kind = path.suffix.lower()
    if is_csv(path):
        return _read_csv(path, text_columns, id_column, text_column)
    if kind == ".json":
        content = read_json(path)
        if isinstance(content, dict):
            return _read_mapping(path, content)
        if not isinstance(content, list):
            raise DataError(f"{path}: expected an object of ids and texts, or a list of objects, got "
                            f"{type(content).__name__}")
        return _read_rows(path, content, text_columns, id_column, text_column)
    if kind == ".jsonl":
        return _read_rows(path, read_jsonl(path), text_columns, id_column, text_column)
    if kind == ".parquet":
        try:
            table = pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataError(f"{path} is not a readable Parquet file: {type(error).__name__}") from None
        return _from_columns(path, table.columns, {name: table[name].to_list() for name in table.columns}, text_columns,
                             id_column, text_column)  # fmt: skip
    raise DataError(f"{path}: the kind of a file is told by its name: .csv, .tsv, .json, .jsonl or .parquet")


def _read_csv(path: Path, text_columns: Sequence[str], id_column: str | None, text_column: str | None) -> ReportFile:
    rows = list(csv_rows(path))
    if not rows:
        raise DataError(f"{path} is empty")
    header, *body = rows
    if len(header) == 1 and header[0] not in (*text_columns, text_column):
        return ReportFile(path, None, [row[0] if row else "" for row in rows], {"text": "the only column, no header"})
    blank = next((number for number, row in enumerate(body, start=1) if not row), None)
    if blank is not None:
        raise DataError(f"{path}, row {blank} is blank; every row needs its {len(header)} cells")
    columns = {name: [row[index] for row in body] for index, name in enumerate(header)}
    if len(columns) != len(header):
        raise DataError(f"{path} has a column name more than once; its columns are {', '.join(header)}")
    return _from_columns(path, header, columns, text_columns, id_column, text_column)


def _read_mapping(path: Path, content: dict[str, Any]) -> ReportFile:
    texts: list[str | None] = []
    for key, value in content.items():
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is not None and not isinstance(value, str):
            raise DataError(f"{path}, id {key}: expected one text, got {_kind(value)}")
        texts.append(value)
    return ReportFile(path, list(content), texts, {"id": "the keys", "text": "the values"})


def _read_rows(path: Path, rows: list[Any], text_columns: Sequence[str], id_column: str | None,
               text_column: str | None) -> ReportFile:
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise DataError(f"{path}, row {number}: expected an object, got {_kind(row)}")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return _from_columns(path, names, columns, text_columns, id_column, text_column)


def _from_columns(path: Path, names: Sequence[str], columns: dict[str, list[Any]], text_columns: Sequence[str],
                  id_column: str | None, text_column: str | None) -> ReportFile:
    def choose(chosen: str | None, known: Sequence[str], what: str) -> str | None:
        if chosen is not None and chosen not in columns:
            raise DataError(f"{path} has no column {chosen} for the {what}; it has {', '.join(names) or 'none'}")
        return chosen or next((name for name in known if name in columns), None)

    text = choose(text_column, text_columns, "text")
    identity = choose(id_column, ID_COLUMNS, "ids")
    if text is None:
        raise DataError(f"{path} has no column of reports: expected {', '.join(text_columns)}, or name it; it has "
                        f"{', '.join(names) or 'none'}")
    if identity is None and len(names) > 1:
        raise DataError(f"{path} has no column of ids: expected {', '.join(ID_COLUMNS)}, or name it; it has "
                        f"{', '.join(names)}")
    texts = columns[text]
    for row, value in enumerate(texts, start=1):
        if value is not None and not isinstance(value, str):
            raise DataError(f"{path}, row {row}, {text}: expected text, got {_kind(value)}")
    ids = None if identity is None else [_id(path, identity, row, value)
                                         for row, value in enumerate(columns[identity], start=1)]
    extra = {name: columns[name] for name in EXTRA_COLUMNS if name in columns}
    return ReportFile(path, ids, texts, {"id": identity or "position", "text": text}, extra)


def _id(path: Path, column: str, row: int, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DataError(f"{path}, row {row}, {column}: expected an id as text or a whole number, got "
                        f"{'nothing' if value in (None, '') else _kind(value)}")
    return str(value)


def _kind(value: Any) -> str:
    """What a value is, never what it says."""
    words = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "nothing" if value is None else words.get(type(value), type(value).__name__)

