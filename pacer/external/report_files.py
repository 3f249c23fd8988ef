"""Reports as other systems leave them: CSV, JSONL, JSON and Parquet, with ids or in an order, read strictly.

What a file leaves open is asked, not guessed: which of two columns has the reports, whether the first row of a single
column is its heading.

========================  ==================================================================================
CSV, TSV (also .gz)       a header with an id and a text column; or one column of texts without a header, as
                          R2Gen's ``res.csv`` and ``gts.csv``: paired by position
JSON                      ``{id: text}`` or ``{id: [text]}``, as LLM-RG4's and R2GenGPT's ``test_result.json`` and
                          ``test_refs.json``; or a list of objects
JSONL                     an object a line, as PACER's own predictions (in which the column `report` is to be named)
Parquet                   an id and a text column, as PACER's ``records.parquet``
========================  ==================================================================================
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import is_broken, numbered_jsonl, read_json
from pacer.corpus.csv_file import csv_rows, is_csv, separator_of

#: Names of the column with the ids, of which the first that a file has is taken, and with the text, of which it may
#: have one; whatever their case.
ID_COLUMNS = ("record_id", "id", "study_id", "image_id")
REFERENCE_COLUMNS = ("reference", "report", "ground_truth", "findings", "text")
HYPOTHESIS_COLUMNS = ("hypothesis", "report", "prediction", "generated", "text")
#: What else a file of references may tell of its records.
EXTRA_COLUMNS = ("context", "split", "study_id", "subject_id", "report_raw", "findings_original")
#: What asks for a column of reports by its name.
_TEXT_OPTIONS = "--reference-text or --hypothesis-text"
#: Parts of the names that programs give to a column of reports.
_NAME_PARTS = (
    "caption",
    "finding",
    "generat",
    "hypothes",
    "impression",
    "output",
    "predict",
    "referenc",
    "report",
    "text",
    "truth",
)


@dataclass(frozen=True)
class ReportFile:
    """Rows of a file in its order. ``ids``: ``None`` where they are told by position alone; ``texts``: ``None`` for a
    report that is missing; ``columns``: which columns they came from; ``extra``: other columns that have a meaning."""

    path: Path
    ids: list[str] | None
    texts: list[str | None]
    columns: dict[str, str] = field(default_factory=dict)
    extra: dict[str, list[Any]] = field(default_factory=dict)

    def key(self, row: int) -> str:
        """What a row pairs by: its id, else its number from 1."""
        return str(row + 1) if self.ids is None else self.ids[row]

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
        DataError: the file is missing or of an unknown kind, a column is not there or not the only one in question, a
            single column begins with what may be its heading, or a row holds something else than text; what arrived,
            what was expected and the row are named.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} is not a file; expected reports as .csv, .tsv, .json, .jsonl or .parquet")
    read, kind = _Reader(path, tuple(text_columns), id_column, text_column), path.suffix.lower()
    if is_csv(path):
        return read.csv()
    if kind == ".json":
        content = read_json(path)
        if isinstance(content, dict):
            return read.mapping(content)
        if not isinstance(content, list):
            raise DataError(
                f"{path}: expected an object of ids and texts, or a list of objects, got {type(content).__name__}"
            )
        return read.rows([(f"row {number}", row) for number, row in enumerate(content, start=1)])
    if kind == ".jsonl":
        rows = [(f"line {number}", row) for number, row in numbered_jsonl(path)]
        if not rows:
            raise DataError(f"{path} is empty")
        return read.rows(rows)
    if kind == ".parquet":
        try:
            table = pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataError(f"{path} is not a readable Parquet file: {type(error).__name__}") from None
        return read.columns({name: table[name].to_list() for name in table.columns}, len(table))
    raise DataError(f"{path}: the kind of a file is told by its name: .csv, .tsv, .json, .jsonl or .parquet")


@dataclass(frozen=True)
class _Reader:
    """How a file is read; arguments as those of :func:`read_reports`."""

    path: Path
    text_columns: tuple[str, ...]
    id_column: str | None
    text_column: str | None

    def csv(self) -> ReportFile:
        self._check_separator()
        rows = list(csv_rows(self.path))
        if not rows:
            raise DataError(f"{self.path} is empty")
        header, *body = rows
        named = self.id_column is not None or self.text_column is not None
        if len(header) == 1 and not named and not _known(header, self.text_columns):
            if _is_heading(header[0]):
                raise DataError(
                    f"{self.path}: its first row looks like a heading, which would be scored as a report; "
                    f"name the column with {_TEXT_OPTIONS}, or put a line `report` above it"
                )
            told = f"the only column ({len(rows)} rows, no header)"
            return ReportFile(self.path, None, [row[0] if row else "" for row in rows], {"text": told})
        blank = next((number for number, row in enumerate(body, start=1) if not row), None)
        if blank is not None:
            raise DataError(f"{self.path}, row {blank} is blank; every row needs its {len(header)} cells")
        columns = {name: [row[index] for row in body] for index, name in enumerate(header)}
        if len(columns) != len(header):
            raise DataError(f"{self.path} has a column name more than once; its columns are {_listed(header)}")
        return self.columns(columns, len(body))

    def mapping(self, content: dict[str, Any]) -> ReportFile:
        for name in (self.text_column, self.id_column):
            if name is not None:
                raise DataError(f"{self.path} is an object of ids and texts, which has no column {name}; leave it out")
        texts = []
        for key, value in content.items():
            single = value[0] if isinstance(value, list) and len(value) == 1 else value
            texts.append(_text(f"{self.path}, id {key}", "one text", single))
        ids = [_id(f"{self.path}, row {row}, the keys", key) for row, key in enumerate(content, start=1)]
        return ReportFile(self.path, ids, texts, {"id": "the keys", "text": "the values"})

    def rows(self, rows: list[tuple[str, Any]]) -> ReportFile:
        """Of objects, each with the words for where it stands."""
        for place, row in rows:
            if not isinstance(row, dict):
                raise DataError(f"{self.path}, {place}: expected an object, got {_kind(row)}")
        names = dict.fromkeys(name for _, row in rows for name in row)
        return self.columns(
            {name: [row.get(name) for _, row in rows] for name in names}, len(rows), [place for place, _ in rows]
        )

    def columns(self, columns: dict[str, list[Any]], count: int, places: Sequence[str] | None = None) -> ReportFile:
        """Of columns of ``count`` rows; ``places``: where each row stands, in words."""
        text, identity = self._text_column(list(columns)), self._id_column(list(columns))
        at = [f"{self.path}, {place}" for place in places or (f"row {row + 1}" for row in range(count))]
        texts = [_text(f"{place}, {text}", "text", value) for place, value in zip(at, columns[text], strict=True)]
        ids = (
            None
            if identity is None
            else [_id(f"{place}, {identity}", value) for place, value in zip(at, columns[identity], strict=True)]
        )
        extra = {known: columns[name] for known in EXTRA_COLUMNS if (name := self._only(list(columns), known))}
        return ReportFile(self.path, ids, texts, {"id": identity or "position", "text": text}, extra)

    def _text_column(self, names: list[str]) -> str:
        if self.text_column is not None:
            return self._chosen(self.text_column, names, "text")
        found = _known(names, self.text_columns)
        if not found:
            raise DataError(
                f"{self.path} has no column of reports: expected {', '.join(self.text_columns)}, or name "
                f"it with {_TEXT_OPTIONS}; it has {_listed(names)}"
            )
        if len(found) > 1:
            raise DataError(
                f"{self.path} has several columns of reports: {', '.join(found)}; say which one is meant "
                f"with {_TEXT_OPTIONS}"
            )
        return found[0]

    def _id_column(self, names: list[str]) -> str | None:
        if self.id_column is not None:
            return self._chosen(self.id_column, names, "ids")
        found = next((name for known in ID_COLUMNS if (name := self._only(names, known))), None)
        if found is None and len(names) > 1:
            raise DataError(
                f"{self.path} has no column of ids: expected {', '.join(ID_COLUMNS)}, or name it with "
                f"--reference-id or --hypothesis-id; it has {_listed(names)}"
            )
        return found

    def _chosen(self, name: str, names: list[str], what: str) -> str:
        if name not in names:
            raise DataError(f"{self.path} has no column {name} for the {what}; it has {_listed(names)}")
        return name

    def _only(self, names: list[str], known: str) -> str | None:
        found = _known(names, (known,))
        if len(found) > 1:
            raise DataError(f"{self.path} has the column {known} more than once ({', '.join(found)})")
        return found[0] if found else None

    def _check_separator(self) -> None:
        """Refuse a header with another separator than the name of the file promises: the table would be one column."""
        opened = gzip.open if self.path.name.lower().endswith(".gz") else open
        try:
            with opened(self.path, "rt", encoding="utf-8-sig", errors="replace") as file:
                header = next((line.strip("\r\n") for line in file if line.strip()), "")
        except (OSError, EOFError, zlib.error):
            return  # the strict reader says what is wrong
        if separator_of(self.path) in header:
            return
        wanted = (*ID_COLUMNS, *self.text_columns, *filter(None, (self.id_column, self.text_column)))
        for separator, words in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
            names = [name.strip(' "') for name in header.split(separator)]
            if len(names) > 1 and _known(names, wanted) and all(len(name.split()) <= 2 for name in names):
                raise DataError(
                    f"{self.path}: the header is separated by {words}; expected commas in a .csv file, "
                    "tabs in a .tsv file: rename it or save it again"
                )


def _known(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Those of ``names`` that are known, whatever their case, in the order of ``known``."""
    return [name for wanted in known for name in names if name.strip().lower() == wanted.lower()]


def _listed(names: Sequence[str]) -> str:
    """Names of columns for an error; what may be a report, for want of a header, is not told."""
    short = [name if len(name) <= 30 and len(name.split()) <= 2 else f"one of {len(name)} characters" for name in names]
    return ", ".join(short) or "none"


def _is_heading(cell: str) -> bool:
    """Whether the first cell of a column may be its heading: a word or a number, or two or three words of which one is
    like the name of such a column; nothing of a sentence."""
    words = cell.lower().split()
    if not 1 <= len(words) <= 3 or re.search("[.,;:!?]", cell):
        return False
    return len(words) == 1 or any(part in word for word in words for part in _NAME_PARTS)


def _text(place: str, expected: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise DataError(f"{place}: expected {expected}, got {_kind(value)}")
    if value is not None and is_broken(value):
        raise DataError(f"{place}: the text holds half of a surrogate pair, which is no letter; write the file again")
    return value


def _id(place: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DataError(
            f"{place}: expected an id as text or a whole number, got "
            f"{'nothing' if value in (None, '') else _kind(value)}"
        )
    if is_broken(str(value)):
        raise DataError(f"{place}: the id holds half of a surrogate pair, which is no letter; write the file again")
    return str(value)


def _kind(value: Any) -> str:
    """What a value is, never what it says."""
    words = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "nothing" if value is None else words.get(type(value), type(value).__name__)
