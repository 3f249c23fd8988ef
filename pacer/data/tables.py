"""Tables that users bring: CSV, JSON lines and Parquet, read strictly.

A file that is damaged anywhere is refused as a whole: what follows a stray quote or a cut cannot be trusted. CSV is
read by the standard library in its strict mode: pyarrow takes an open quote for text up to the end of the file, and
polars fills up short rows. Messages name the file, the line (of Parquet, which has none, the row) and the column, say
what arrived and what was expected, and never quote a cell.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.core.errors import DataError
from pacer.core.hygiene import has_lone_surrogate
from pacer.core.io import numbered_jsonl, opened
from pacer.data.values import quoted, shown

#: Characters of one cell at most.
LARGEST = 1 << 24
# The limit belongs to the module csv and is looked up at every cell, so a reader cannot have one of its own. Reports
# exceed the default of 131,072 characters. It is raised here, once, and never lowered.
csv.field_size_limit(max(csv.field_size_limit(), LARGEST))

Kind = Literal["csv", "json", "jsonl", "parquet"]

#: What may stand between the cells of a CSV file, by the name that settings and messages give it.
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
#: How the files of office programs end, and how they begin, whatever their name: as archives, or as compound files.
_SHEETS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")
_LONGEST_HEADER = 100_000
_SHEET_STARTS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
_SAVE_AS_CSV = "is a spreadsheet; save the sheet as CSV (UTF-8) and name that file"


class CsvForm(NamedTuple):
    """How a CSV file is written, where that is not what its name says.

    ``delimiter``: a name of :data:`SEPARATORS`; None: a comma, in ``.tsv`` a tab. ``encoding``: a name that Python
    knows. ``settings``: where a user says so, for messages.
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    settings: str = ""

    def separator(self, path: str | Path) -> str:
        """The name of what stands between the cells of a file."""
        return self.delimiter or ("tab" if str(path).lower().removesuffix(".gz").endswith(".tsv") else "comma")

    def lines(self, path: Path, errors: str = "strict") -> Iterator[str]:
        """The lines of a file with their ends, without a byte order mark."""
        with opened(path) as content, TextIOWrapper(content, self.encoding, errors, newline="") as file:
            yield file.readline().removeprefix("\ufeff")
            yield from file


AS_NAMED = CsvForm()


class Table(NamedTuple):
    """The content of a file; see :func:`open_table`.

    Attributes:
        columns: as the file names them, in its order.
        numbers: of each row: the line that it begins in; where there are no lines, as in Parquet, its number from 1.
        rows: a value for each column: text in CSV (None in a blank line), else as the file types them.
        counts: rows that have the column (JSON lines need not have it).
    """

    path: Path
    kind: Kind
    columns: list[str]
    numbers: Sequence[int]
    rows: list[tuple[Any, ...]]
    counts: dict[str, int]

    @property
    def unit(self) -> str:
        """What ``numbers`` count."""
        return "line" if self.kind in ("csv", "jsonl") else "row"

    @property
    def places(self) -> list[str]:
        """Each row for messages: ``line 3``."""
        return [f"{self.unit} {number}" for number in self.numbers]

    def named(self, *names: str) -> list[str]:
        """The columns of these names, whatever their case and the blanks around them, in the order of ``names``."""
        return [column for name in names for column in self.columns if column.strip().lower() == name.lower()]

    def only(self, name: str) -> str | None:
        """The column of a name, see :meth:`named`; None without one.

        Raises:
            DataError: several columns have the name.
        """
        columns = self.named(name)
        if len(columns) > 1:
            raise DataError(f"{self.path} has the column {name} more than once ({', '.join(columns)})")
        return columns[0] if columns else None

    def values(self, column: str) -> list[Any]:
        """The values of a column, row by row."""
        place = self.columns.index(column)
        return [row[place] for row in self.rows]

    def frame(self, columns: Sequence[str], decimals: Collection[str] = ()) -> pl.DataFrame:
        """Some columns as text, in the order of the file's rows; an empty cell of CSV is null.

        Args:
            decimals: columns whose whole numbers keep their point; elsewhere 7.0 is 7, because an id does not change
                its name when its column has gaps.

        Raises:
            DataError: a value is neither text nor a number, date or time.
        """
        texts = {}
        for name in columns:
            values = zip(self.places, self.values(name), strict=True)
            texts[name] = [
                _as_text(value, f"{self.path}, {place}, {name}", name in decimals) for place, value in values
            ]
        frame = pl.DataFrame(texts, dict.fromkeys(columns, pl.String()))
        return frame.with_columns(pl.col(pl.String).replace("", None)) if self.kind == "csv" else frame


def open_table(path: str | Path, form: CsvForm = AS_NAMED, *, headed: bool = True) -> Table:
    """Read a table: ``.csv``, ``.tsv``, ``.jsonl`` (also ``.gz``) or ``.parquet``.

    Args:
        form: how a CSV file is written. headed: it has a header, and more columns than one.

    Raises:
        DataError: the file is missing, of another kind, or damaged anywhere, or a line of JSON is no object; or a CSV
            file has another separator.
    """
    path = Path(path)
    kind = kind_of(path)
    with _readable(path):
        if kind == "parquet":
            open(path, "rb").close()
            frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
            counts = dict.fromkeys(frame.columns, frame.height)
            return Table(path, kind, frame.columns, range(1, frame.height + 1), frame.rows(), counts)
        if kind == "jsonl":
            lines = list(numbered_jsonl(path))
            for number, line in lines:
                if not isinstance(line, dict):
                    raise DataError(f"{path}, line {number}: expected an object, got {shown(line)}")
            counts = Counter(name for _, line in lines for name in line)
            rows = [tuple(map(line.get, counts)) for _, line in lines]
            return Table(path, kind, list(counts), [number for number, _ in lines], rows, counts)
        _check_header(path, form, headed)
        (_, columns), *cells = list(numbered_csv(path, form)) or [(0, [])]
        blank = (None,) * len(columns)
        rows = [tuple(row) if row else blank for _, row in cells]
        return Table(path, kind, columns, [line for line, _ in cells], rows, dict.fromkeys(columns, len(rows)))


def kind_of(path: str | Path) -> Kind:
    """What a table is, by the ending of its name; ``csv`` for ``.tsv`` as well.

    Raises:
        DataError: the ending is that of no table.
    """
    name = Path(path).name.lower()
    if name.endswith(".parquet"):
        return "parquet"
    text = name.removesuffix(".gz")
    if text.endswith((".csv", ".tsv")):
        return "csv"
    if text.endswith(".jsonl"):
        return "jsonl"
    if name.endswith(_SHEETS):
        raise DataError(f"{path} {_SAVE_AS_CSV}")
    raise DataError(f"{path} must be a table: .csv, .tsv, .jsonl (also .gz) or .parquet")


def _check_header(path: Path, form: CsvForm, headed: bool) -> None:
    """Refuse a spreadsheet, and a header that another separator divides: the table would be one column."""
    with open(path, "rb") as file:
        if file.read(4) in _SHEET_STARTS:
            raise DataError(f"{path} {_SAVE_AS_CSV}")
    header = next((line.strip("\r\n") for line in form.lines(path, "replace") if line.strip()), "")[:_LONGEST_HEADER]
    names = {what: next(csv.reader([header], delimiter=mark), []) for what, mark in SEPARATORS.items()}
    if len(names[form.separator(path)]) > 1:
        return
    for what, columns in names.items():
        # one column of texts without a header can hold any of the marks
        if len(columns) > 1 and (headed or all(len(name.split()) <= 2 for name in columns)):
            there = "commas in a .csv file, tabs in a .tsv file" if form.delimiter is None else f"{form.delimiter}s"
            way = f"set {form.settings}delimiter to {what}, " if form.settings else ""
            raise DataError(
                f"{path}: the header is separated by {what}s; expected {there}: {way}rename it or save it again"
            )


def numbered_csv(path: Path, form: CsvForm = AS_NAMED) -> Iterator[tuple[int, list[str]]]:
    """The header, then the rows, of a ``.csv`` or ``.tsv`` file, each with the line that it begins in.

    Every row has as many cells as the header. A blank line is an empty list; blank lines above the header are passed
    over. UTF-8 comes with or without a byte order mark.
    """
    width, line = 0, 1
    reader = csv.reader(form.lines(path), delimiter=SEPARATORS[form.separator(path)], strict=True)
    with _readable(path):
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as error:
                reason = f"{error}; the file is cut off or its quotes do not match"
                raise DataError(f"{path}, line {line}: {reason}") from None
            except UnicodeDecodeError as error:
                # the file is decoded in blocks, so the place is a little further on
                way = f", or set {form.settings}encoding, for example to cp1252" if form.settings else ""
                reason = f"not {form.encoding.upper()} ({error.reason}); save the file as UTF-8{way}"
                raise DataError(f"{path}, after line {line}: {reason}") from None
            if cells is None:
                return
            width = width or len(cells)
            if cells and len(cells) != width:
                fields = "1 field" if len(cells) == 1 else f"{len(cells)} fields"
                raise DataError(f"{path}, line {line}: {fields}, but the header has {width}")
            if width:
                yield line, cells
            line = reader.line_num + 1


def shown_columns(names: Sequence[str]) -> str:
    """The columns of a file, for an error; a long name could be report text where the file has no header."""
    return ", ".join(quoted(name, 50, 2) for name in names) or "no columns"


def _as_text(value: Any, place: str, decimal: bool) -> str | None:
    if value is None or value != value:  # null or NaN
        return None
    if isinstance(value, str):
        if has_lone_surrogate(value):
            raise DataError(f"{place}: half of a surrogate pair is in the text: the file is damaged")
        return value
    if isinstance(value, datetime) and value.tzinfo is not None:
        # in UTC order and gaps stay right when the clocks change
        value = value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | date | time):
        raise DataError(f"{place}: expected text or a number, got {shown(value)}")
    whole = isinstance(value, float) and value.is_integer() and not decimal
    return str(int(value) if whole else value)


@contextmanager
def _readable(path: Path) -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError, zlib.error) as error:
        # the first line of a message, up to where it begins to quote
        reason = re.split(r"[`'\"]", (getattr(error, "strerror", None) or str(error)).partition("\n")[0])[0]
        raise DataError(f"{path} cannot be read: {reason.strip(' :') or type(error).__name__}") from None
