"""Tables that users bring: CSV, JSON lines and Parquet, read strictly.

A file that is damaged anywhere is refused as a whole and before anything of it is used: what follows a stray quote or
a cut cannot be trusted. Messages name the file, the line (of Parquet, which has none, the row) and the column, say what
arrived and what was expected, and never quote a cell.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.core.errors import DataError
from pacer.core.hygiene import has_lone_surrogate
from pacer.core.io import numbered_jsonl, opened

#: Characters of one cell at most.
LARGEST = 1 << 24
# The limit belongs to the module csv and is looked up at every cell, so a reader cannot have one of its own. Reports
# exceed the default of 131,072 characters. It is raised here, once, and never lowered.
csv.field_size_limit(max(csv.field_size_limit(), LARGEST))

Kind = Literal["csv", "jsonl", "parquet"]

#: What may stand between the cells of a CSV file, by the name that settings and messages give it.
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
#: How the files of office programs end, and how they begin, whatever their name: as archives, or as compound files.
_SHEETS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")
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
        """The character between cells of the file at ``path``."""
        if self.delimiter is not None:
            return SEPARATORS[self.delimiter]
        return "\t" if str(path).lower().removesuffix(".gz").endswith(".tsv") else ","

    @contextmanager
    def opened(self, path: Path, errors: str = "strict") -> Generator[TextIOWrapper]:
        """The text of the file, without a byte order mark."""
        with opened(path) as content, TextIOWrapper(content, self.encoding, errors, newline="") as file:
            marked = False
            with suppress(UnicodeDecodeError):  # raised again where the reader says what it means
                marked = file.read(1) == "\ufeff"
            if not marked:
                file.seek(0)
            yield file


AS_NAMED = CsvForm()


class TableRow(NamedTuple):
    """The values of the columns asked for. ``place``: ``line 3``, of Parquet ``row 3``, counted from 1. ``empty``: no
    column of the file holds text here (CSV alone); a blank line has None in every column."""

    place: str
    values: tuple[Any, ...]
    empty: bool = False


@dataclass(frozen=True)
class TableFile:
    """A file that has been read and is whole; see :func:`open_table`.

    Attributes:
        columns: as the file names them, in its order; a name of CSV may stand twice.
        height: its rows, blank lines of CSV included.
        counts: rows that have the column (JSON lines need not have it).
        lines: of CSV the cells, of JSON lines the object of each row, and the line that it begins in; of Parquet,
            which has no lines, empty.
    """

    path: Path
    kind: Kind
    columns: list[str]
    height: int
    counts: dict[str, int]
    lines: Sequence[tuple[int, Any]] = ()

    @property
    def places(self) -> Sequence[int]:
        """The line of each row, of Parquet its number from 1."""
        return [line for line, _ in self.lines] or range(1, self.height + 1)

    def named(self, *names: str) -> list[str]:
        """The columns of these names, whatever their case and the blanks around them, in the order of ``names``."""
        return [column for name in names for column in self.columns if column.strip().lower() == name.lower()]

    def only(self, name: str) -> str | None:
        """The column of a name, see :meth:`named`; None without one.

        Raises:
            DataError: several columns have the name.
        """
        found = self.named(name)
        if len(found) > 1:
            raise DataError(f"{self.path} has the column {name} more than once ({', '.join(found)})")
        return found[0] if found else None

    def rows(self, columns: Sequence[str]) -> Iterator[TableRow]:
        """The values of some columns, row by row: text in CSV, else as the file types them."""
        if self.kind == "jsonl":
            for line, row in self.lines:
                yield TableRow(f"line {line}", tuple([row.get(name) for name in columns]))
        elif self.kind == "parquet":
            for number, values in enumerate(self.frame(columns).iter_rows(), start=1):
                yield TableRow(f"row {number}", values)
        else:
            places = [self.columns.index(name) for name in columns]
            blank = (None,) * len(places)
            for line, cells in self.lines:
                values = tuple([cells[place] for place in places]) if cells else blank
                yield TableRow(f"line {line}", values, not any(map(str.strip, cells)))

    def frame(self, columns: Sequence[str], decimals: Collection[str] = ()) -> pl.DataFrame:
        """Some columns at once, in the order of the file's rows: of CSV and JSON lines as text, of Parquet as typed.

        Args:
            decimals: columns of JSON whose whole numbers keep their point; elsewhere 7.0 is 7, because an id does not
                change its name when its column has gaps.

        Raises:
            DataError: a value is neither text nor a number.
        """
        if self.kind == "parquet":
            with _readable(self.path):
                table = pl.read_parquet(self.path, columns=list(columns), glob=False, hive_partitioning=False)
            return table.select(columns)
        texts = [
            [
                _as_text(value, f"{self.path}, {row.place}, {name}", name in decimals)
                for name, value in zip(columns, row.values, strict=True)
            ]
            for row in self.rows(columns)
        ]
        table = pl.DataFrame(texts, dict.fromkeys(columns, pl.String()), orient="row")
        return table.with_columns(pl.col(pl.String).replace("", None)) if self.kind == "csv" else table


def open_table(
    path: str | Path, wanted: Collection[str] = (), form: CsvForm = AS_NAMED, *, headed: bool = True
) -> TableFile:
    """Read a table: ``.csv``, ``.tsv``, ``.jsonl`` (also ``.gz``) or ``.parquet``.

    Args:
        wanted: names of columns, of which the caller needs some: they show a CSV file with another separator.
        form: how a CSV file is written. headed: it has a header, and more columns than one.

    Raises:
        DataError: the file is missing, of another kind, or damaged anywhere, or a line of JSON is no object; or a CSV
            file has another separator.
    """
    path = Path(path)
    kind = kind_of(path)
    with _readable(path):
        if kind == "csv":
            _check_separator(path, wanted, form, headed)
        if kind == "parquet":
            open(path, "rb").close()
            columns = list(pl.read_parquet_schema(path))
            height = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
            return TableFile(path, kind, columns, height, dict.fromkeys(columns, height))
        if kind == "jsonl":
            rows = list(numbered_jsonl(path))
            for number, row in rows:
                if not isinstance(row, dict):
                    raise DataError(f"{path}, line {number}: expected an object, got {shown(row)}")
            counts = Counter(name for _, row in rows for name in row)
            return TableFile(path, kind, list(counts), len(rows), counts, rows)
        (_, columns), *lines = list(numbered_csv(path, form)) or [(0, [])]
        return TableFile(path, kind, columns, len(lines), dict.fromkeys(columns, len(lines)), lines)


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


def _check_separator(path: Path, wanted: Collection[str], form: CsvForm, headed: bool) -> None:
    """Refuse a header with another separator than expected: the table would be one column."""
    with open(path, "rb") as file:
        if file.read(4) in _SHEET_STARTS:
            raise DataError(f"{path} {_SAVE_AS_CSV}")
    with form.opened(path, errors="replace") as file:
        header = next((line.strip("\r\n") for line in file if line.strip()), "")
    names = {what: _names(header, mark) for what, mark in SEPARATORS.items()}
    lower = {name.lower() for name in wanted}
    known = {what: len(lower & {name.lower() for name in found}) for what, found in names.items()}
    expected = next(what for what, mark in SEPARATORS.items() if mark == form.separator(path))
    if known[expected] or (len(names[expected]) > 1 and not any(known.values())):
        return
    for what, found in names.items():
        short = all(len(name.split()) <= 2 for name in found)
        surely = known[what] > 1 or (headed and len(names[expected]) == 1) or (short and (known[what] or headed))
        if what != expected and len(found) > 1 and surely:
            there = "commas in a .csv file, tabs in a .tsv file" if form.delimiter is None else f"{form.delimiter}s"
            way = f"set {form.settings}delimiter to {what}, " if form.settings else ""
            raise DataError(
                f"{path}: the header is separated by {what}s; expected {there}: {way}rename it or save it again"
            )


def _names(header: str, mark: str) -> list[str]:
    """The columns of a header that ``mark`` separates; what stands in quotes is one."""
    try:
        cells = next(csv.reader([header], delimiter=mark), [])
    except csv.Error:  # too long for any name
        cells = [header]
    return [name.strip(' "') for name in cells]


def numbered_csv(path: Path, form: CsvForm = AS_NAMED) -> Iterator[tuple[int, list[str]]]:
    """The header, then the rows, of a ``.csv`` or ``.tsv`` file, each with the line that it begins in.

    Every row has as many cells as the header. A blank line is an empty list; blank lines above the header are passed
    over. UTF-8 comes with or without a byte order mark.
    """
    with _readable(path), form.opened(path) as file:
        reader = csv.reader(file, delimiter=form.separator(path), strict=True)
        width, line = 0, 1
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


def shown(value: Any) -> str:
    """What arrived, for an error, without its content: numbers are shown, text is not."""
    if isinstance(value, str):
        return "blank text" if not value.strip() else f"text of {len(value)} characters"
    if isinstance(value, bool | float | None):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if abs(value) < 10**20 else "a number of more than 20 digits"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def shown_columns(names: Sequence[str]) -> str:
    """The columns of a file, for an error; a long name could be report text where the file has no header."""
    short = [n if len(n) <= 50 and len(n.split()) <= 2 else f"a name of {len(n)} characters" for n in names]
    return ", ".join(short) or "no columns"


def _as_text(value: Any, place: str, decimal: bool) -> str | None:
    if value is None or value != value:  # null or NaN
        return None
    if isinstance(value, str):
        if has_lone_surrogate(value):
            raise DataError(f"{place}: half of a surrogate pair is in the text: the file is damaged")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
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
