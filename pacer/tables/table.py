"""The table that every reader returns, whatever the form of the file."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.core.errors import DataError
from pacer.tables.hygiene import LARGEST_EXACT, rounding_fault
from pacer.tables.mending import mending_line, reading
from pacer.tables.values import shown

Kind = Literal["csv", "json", "jsonl", "parquet", "xlsx", "txt"]

#: Columns of the row numbers that programs write: without a name, or with one that pandas or readr
#: give them.
_INDEX = re.compile(r"\s*|Unnamed: \d+[._\w]*|\.\.\.\d+|__index_level_\d+__")
#: Column names that messages may show; anything else could be report text.
_NAME = re.compile(r"(?=.{1,50}\Z)[\w-]+( [\w-]+)?")
#: A lone surrogate, which JSON can contain but a table cannot.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
#: A number that cannot be an id: with a point or comma as decimal mark, or an exponent.
_DECIMAL = re.compile(r"[+-]?(?:\d*[.,]\d+|\d+[.,]|\d+(?=e\+))(?:e[+-]?\d+)?", re.IGNORECASE)
#: Such a number that is whole, and has not been rounded.
_WHOLE = re.compile(r"\d{1,15}[.,]0*")


class SourceTable(NamedTuple):
    """The content of a file; see :func:`open_table`."""

    path: Path
    kind: Kind
    #: Names and order as in the file.
    columns: list[str]
    #: For each row, the line on which it begins; in a file without lines, its number from 1.
    numbers: Sequence[int]
    #: For each row, one value per column: text in CSV (None in a blank line), else of the type in
    #: the file.
    rows: list[tuple[Any, ...]]
    #: Numbers of rows of the other sheets of a workbook.
    unread: Mapping[str, int] | None = None
    #: The call of polars that reads the file, if it differs from that for its suffix.
    reading: str = ""

    @property
    def places(self) -> list[str]:
        """Location of each row, for messages: ``line 3``."""
        unit = "line" if self.kind in ("csv", "jsonl") else "row"
        return [f"{unit} {number}" for number in self.numbers]

    def data_columns(self) -> list[str]:
        """Return the columns but those of row numbers. Raises a DataError if two have one name."""
        names = [name for name in self.columns if not _INDEX.fullmatch(name)]
        if len(set(names)) < len(names):
            raise DataError(f"{self.path} has duplicate column names")
        return names

    def values(self, column: str) -> list[Any]:
        """Return the values of a column, in row order."""
        place = self.columns.index(column)
        return [row[place] for row in self.rows]

    def frame(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return columns as text, in the order of the file's rows; an empty CSV cell is null, and
        7.0 is 7, because gaps in a column can turn integer ids into decimals.

        Raises a DataError if a value is neither text nor a number, date or time.
        """
        texts = {
            name: [
                _as_text(value, f"{self.path}, {place}, {name}")
                for place, value in zip(self.places, self.values(name), strict=True)
            ]
            for name in columns
        }
        frame = pl.DataFrame(texts, dict.fromkeys(columns, pl.String()))
        if self.kind == "csv":
            frame = frame.with_columns(pl.col(pl.String).replace("", None))
        return frame

    def ids(self, column: str) -> pl.Series:
        """Return a column of ids as text, without the blanks around them; null for an empty cell.

        Ids are text; a whole number is its digits. Excel stores every number as a float, so there a
        whole float is a whole number. Raises a DataError for any other number, because it may have
        been rounded, and for a value that is neither text nor a number.
        """
        ids = [_id_text(value, self.kind) for value in self.values(column)]
        for place, id, value in zip(self.places, ids, self.values(column), strict=True):
            where = f"{self.path}, {place}, {column}"
            if id == "":
                raise DataError(f"{where}: expected an id, which is text, got {shown(value)}")
            if id is None or not _DECIMAL.fullmatch(id):
                continue
            name, remedy = "ids_without_point", "remove the point"
            if not _WHOLE.fullmatch(id):
                name = "ids_from_source"
                remedy = (
                    "this one may have been rounded, so read them as text from a new export (here "
                    f"source{self.path.suffix})"
                )
            raise DataError(
                f"{where}: got the number {id}; ids are text; {remedy}:\n"
                f"{self.mended(name, column)}"
            )
        return pl.Series(column, ids, pl.String)

    def mended(self, name: str, column: str = "", **values: Any) -> str:
        """Return the line ``name`` of ``mending.yaml`` for this file."""
        read = self.reading or reading(self.path)
        return mending_line(name, self.path, read=read, column=column, **values)

    def check_ids(self, columns: Sequence[str]) -> None:
        """Raise a DataError if an id was rounded, because rows of different examinations or
        patients would be joined by it."""
        for name in columns:
            for place, text in zip(self.places, self.frame([name])[name], strict=True):
                if text is not None and (fault := rounding_fault(text)):
                    raise DataError(f"{self.path}, {place}, {name}: {text} is {fault}")


def shown_columns(names: Sequence[str]) -> str:
    """List the columns of a table for a message, without those that could be report text."""
    return ", ".join(map(_shown_name, names)) or "no columns"


def _shown_name(name: str) -> str:
    if not name.strip():
        return "one unnamed"
    return name if _NAME.fullmatch(name) else "a text"


def _id_text(value: Any, kind: Kind) -> str | None:
    """Return an id, or a number that cannot be one, as text; None for an empty cell, and "" for a
    value of another type."""
    if value is None or value != value:  # null or NaN
        return None
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return ""
    if kind == "xlsx" and isinstance(value, float) and value.is_integer():
        return str(int(value))  # read_sheet returns those below 10**15
    return str(value)


def _as_text(value: Any, place: str) -> str | None:
    if value is None or value != value:  # null or NaN
        return None
    if isinstance(value, str):
        if _LONE_SURROGATE.search(value):
            raise DataError(
                f"{place}: the text contains an unpaired surrogate; the file is damaged"
            )
        return value
    is_known = isinstance(value, int | float | Decimal | date | time | timedelta)
    if isinstance(value, bool) or not is_known:
        raise DataError(f"{place}: expected text or a number, got {shown(value)}")
    if isinstance(value, float) and value.is_integer():
        if abs(value) >= LARGEST_EXACT:  # rounded; the checks of ids refuse the exponent
            return f"{value:e}"
        return str(int(value))
    return str(value)
