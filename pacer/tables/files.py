"""Strict reading of users' tables: CSV, Excel, JSON lines and Parquet.

A damaged file is refused as a whole, because the content after a stray quote or a truncation cannot
be trusted. CSV is read by the standard library in strict mode: pyarrow reads an open quote
as text up to the end of the file, and polars pads short rows. Messages name the file, the line (the
row in Parquet) and the column, and the expected and actual kinds of value; they never quote a cell.
"""

import csv
import re
import warnings
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import numbered_jsonl, opened
from pacer.tables.hygiene import LARGEST_EXACT, rounding_fault
from pacer.tables.values import quoted, shown

#: Maximum number of characters in a cell. Reports exceed the default of the csv module, whose limit
#: is global.
LARGEST = 1 << 24
csv.field_size_limit(LARGEST)

Kind = Literal["csv", "json", "jsonl", "parquet", "xlsx"]

#: Separators of CSV files, by their names in the settings.
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
#: Excel's first line that names the separator.
_DECLARED = re.compile(r'"?sep=([,;\t|])"?\s*', re.IGNORECASE)
#: A quote after a backslash that is not escaped itself.
_ESCAPED_QUOTE = re.compile(r'(?<!\\)((?:\\\\)*)\\"')
#: Excel keeps 15 digits of a number.
_EXCELS_LARGEST = 10**15
#: Names that pandas and readr give to row numbers; other programs leave them unnamed.
_INDEX = re.compile(r"\s*|Unnamed: \d+[._\w]*|\.\.\.\d+|__index_level_\d+__")
#: A lone surrogate, which JSON can contain but a table cannot.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
#: A part of a number format: a digit, words in quotes, an escaped sign, or another sign.
_FORMAT = re.compile(r'0|"[^"]*"|\\.|[-/ ()]')


class CsvForm(NamedTuple):
    """The format of a CSV file, if it differs from the default for its name."""

    #: A name of ``SEPARATORS``; None: a comma, or a tab in ``.tsv``.
    delimiter: str | None = None
    #: One of Python's names of encodings.
    encoding: str = "utf-8"
    #: Prefix of the user's settings for these options, for messages.
    settings: str = ""
    #: A quote within quotes is doubled, or it follows a backslash, as Spark and Hive write it.
    quotes: Literal["doubled", "backslash"] = "doubled"


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
    #: Columns of decimal numbers of 32 bits.
    of_32_bits: Collection[str] = ()
    #: Numbers of rows of the other sheets of a workbook.
    unread: Mapping[str, int] | None = None
    #: Changes that were made to the file's form, and how often.
    notes: Mapping[str, int] | None = None

    @property
    def places(self) -> list[str]:
        """Location of each row, for messages: ``line 3``."""
        unit = "line" if self.kind in ("csv", "jsonl") else "row"
        return [f"{unit} {number}" for number in self.numbers]

    def only(self, name: str) -> str | None:
        """Return the column with a name, ignoring case and surrounding spaces; None if there is
        none. Raises a DataError if several columns have this name."""
        columns = [column for column in self.columns if column.strip().lower() == name.lower()]
        if len(columns) > 1:
            raise DataError(
                f"{self.path} has several columns named {name} ({', '.join(columns)}); keep one"
            )
        return columns[0] if columns else None

    def values(self, column: str) -> list[Any]:
        """Return the values of a column, in row order."""
        place = self.columns.index(column)
        return [row[place] for row in self.rows]

    def frame(self, columns: Sequence[str], decimals: Collection[str] = ()) -> pl.DataFrame:
        """Return columns as text, in the order of the file's rows; an empty CSV cell is null.

        Args:
            decimals: columns whose whole numbers keep their decimal point; elsewhere 7.0 becomes 7,
                because gaps in a column can turn integer ids into decimals.

        Raises a DataError if a value is neither text nor a number, date or time.
        """
        texts = {}
        for name in columns:
            exact_below = 2**24 if name in self.of_32_bits else LARGEST_EXACT
            texts[name] = [
                _as_text(value, f"{self.path}, {place}, {name}", name in decimals, exact_below)
                for place, value in zip(self.places, self.values(name), strict=True)
            ]
        frame = pl.DataFrame(texts, dict.fromkeys(columns, pl.String()))
        if self.kind == "csv":
            frame = frame.with_columns(pl.col(pl.String).replace("", None))
        return frame

    def check_ids(self, columns: Sequence[str]) -> None:
        """Raise a DataError if an id was rounded, because rows of different examinations or
        patients would be joined by it."""
        for name in columns:
            for place, text in zip(self.places, self.frame([name])[name], strict=True):
                if text is not None and (fault := rounding_fault(text)):
                    raise DataError(f"{self.path}, {place}, {name}: {text} is {fault}")


def open_table(
    path: str | Path, form: CsvForm | None = None, sheet: str | None = None
) -> SourceTable:
    """Read a table: ``.csv``, ``.tsv``, ``.jsonl`` (also ``.gz``), ``.parquet`` or ``.xlsx``.

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
        if name.endswith((".csv", ".tsv")):
            return _read_csv(path, form or CsvForm())
        if path.name.lower().endswith(".parquet"):
            return _read_parquet(path)
        if path.name.lower().endswith((".xlsx", ".xlsm")):
            return _read_sheet(path, sheet)
        if not name.endswith((".jsonl", ".ndjson")):
            raise DataError(
                f"{path} must be a table: .csv, .tsv, .jsonl (also .gz), .parquet or .xlsx; save a "
                "spreadsheet as CSV (UTF-8)"
            )
        lines = list(numbered_jsonl(path))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged, or its extension is wrong"
        raise DataError(f"{path} cannot be read: {reason}") from None
    for number, line in lines:
        if not isinstance(line, dict):
            raise DataError(f"{path}, line {number}: expected a JSON object, got {shown(line)}")
    columns = list(dict.fromkeys(name for _, line in lines for name in line))
    rows = [tuple(map(line.get, columns)) for _, line in lines]
    return SourceTable(path, "jsonl", columns, [number for number, _ in lines], rows)


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
    of_32_bits = frame.select(pl.col(pl.Float32)).columns
    return SourceTable(
        path,
        "parquet",
        frame.columns,
        range(1, frame.height + 1),
        frame.rows(),
        of_32_bits,
    )


def _read_sheet(path: Path, name: str | None) -> SourceTable:
    """Read a sheet of a workbook. Its header is the first row with more than one filled cell, or
    with one if no row has more; the rows above it are a title. Formulas have the value that was
    saved, and all rows of a merged cell have its value.

    Args:
        name: name of the sheet; None: the first visible sheet.

    Raises:
        DataError: openpyxl is not installed, the file cannot be read, has no such sheet, or a
            formula has no value.
    """
    try:
        load = import_module("openpyxl").load_workbook
        with warnings.catch_warnings(action="ignore"):  # about styles and extensions
            book = load(path, data_only=True)
            formulas = load(path)
    except FileNotFoundError:
        raise
    except ModuleNotFoundError:
        way = "`pip install openpyxl` (in a git clone: `pip install -c constraints.txt '.[excel]'`)"
        raise DataError(
            f"{path} needs the package openpyxl: {way}; or save the sheet as CSV (UTF-8)"
        ) from None
    except Exception:  # from a zip file, its XML, or openpyxl
        raise DataError(
            f"{path} cannot be read: it is damaged, password-protected, or not an .xlsx file"
        ) from None
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    name = name or next(title for title, sheet in sheets.items() if sheet.sheet_state == "visible")
    if name not in sheets:
        raise DataError(
            f"{path} has no sheet {name}, only {', '.join(sheets)}; set corpus.table.sheet"
        )
    sheet = sheets.pop(name)
    cells = [cell for row in formulas[name].iter_rows() for cell in row if cell.data_type == "f"]
    lost = [cell.coordinate for cell in cells if sheet[cell.coordinate].value is None]
    if lost:
        more = f" (and {len(lost) - 1:,} more)" if len(lost) > 1 else ""
        way = "open the file in a spreadsheet program and save it again"
        raise DataError(
            f"{path}, {name}, cell {lost[0]}{more}: the value of the formula was not saved; {way}"
        )
    for area in list(sheet.merged_cells.ranges):
        corner = sheet.cell(area.min_row, area.min_col)
        sheet.unmerge_cells(str(area))
        for row in range(area.min_row + 1, area.max_row + 1):
            sheet.cell(row, area.min_col, corner.value).number_format = corner.number_format
    rows = {cells[0].row: tuple(map(_cell_value, cells)) for cells in sheet.iter_rows()}
    num_filled = {number: sum(cell is not None for cell in row) for number, row in rows.items()}
    rows = {number: row for number, row in rows.items() if num_filled[number]}
    headers = [number for number in rows if num_filled[number] > 1]
    first = headers[0] if headers else min(rows, default=0)
    titles = [number for number in rows if number < first]
    for number in titles:
        del rows[number]
    header = rows.pop(first, ())
    columns = [
        place
        for place, name in enumerate(header)
        if name is not None or any(row[place] for row in rows.values())
    ]
    names = ["" if header[place] is None else str(header[place]) for place in columns]
    unread = {title: sheet.max_row for title, sheet in sheets.items() if sheet.max_row > 1}
    return SourceTable(
        path,
        "xlsx",
        names,
        list(rows),
        [tuple(row[place] for place in columns) for row in rows.values()],
        unread=unread,
        notes={f"row {number}: a title above the header, not used": 1 for number in titles},
    )


def _cell_value(cell: Any) -> Any:
    """Return the value of a cell as it is shown: a day without a time, an id with its zeros, a
    rounded number with an exponent."""
    value = cell.value
    form = cell.number_format
    if isinstance(value, datetime) and "h" not in form.lower():
        return value.date()
    if not isinstance(value, int | float):
        return value
    if abs(value) >= _EXCELS_LARGEST:
        return f"{value:e}"
    return _as_formatted(value, form) if isinstance(value, int) or value.is_integer() else value


def _as_formatted(value: float, form: str) -> Any:
    """Return a whole number in the format of an id: digits with leading zeros, and words or signs
    between them, such as ``"P"0000`` and ``000-000``. With any other format return the number."""
    parts = re.findall(_FORMAT, form)
    places = [part for part in parts if part == "0"]
    if "".join(parts) != form or not places or value < 0:
        return value
    digits = f"{int(value):0{len(places)}}"
    num_in_place = len(digits) - len(places) + 1  # the first place has all extra digits
    text = ""
    for part in parts:
        if part == "0":
            text += digits[:num_in_place]
            digits = digits[num_in_place:]
            num_in_place = 1
        else:
            text += part.strip('"\\')
    return text


def _read_csv(path: Path, form: CsvForm) -> SourceTable:
    """Read a CSV file, with or without a byte order mark. Blank lines above the header are skipped;
    a first line that names the separator takes precedence over the setting."""
    columns: list[str] = []
    numbers: list[int] = []
    rows: list[tuple[str | None, ...]] = []
    line = 1
    header = 1
    is_tsv = path.name.lower().removesuffix(".gz").endswith(".tsv")
    separator = form.delimiter or ("tab" if is_tsv else "comma")
    try:
        with opened(path) as content, TextIOWrapper(content, form.encoding, newline="") as file:
            first = file.readline().removeprefix("\ufeff")
            declared = _DECLARED.fullmatch(first)
            if declared:
                separator = next(name for name, sign in SEPARATORS.items() if sign == declared[1])
                first = ""
            lines = chain([first], file)
            if form.quotes == "backslash":
                lines = (_ESCAPED_QUOTE.sub(r'\1""', text) for text in lines)
            reader = csv.reader(lines, delimiter=SEPARATORS[separator], strict=True)
            for cells in reader:
                if not columns:
                    columns = cells
                    header = line
                elif len(cells) in (0, len(columns)):
                    numbers.append(line)
                    rows.append(tuple(cells) or (None,) * len(columns))
                else:
                    remedy = (
                        "quote any cell that contains one, and remove titles above the "
                        f"header{_escaped(path, form)}"
                    )
                    other = other_separator(columns, separator)
                    if other and form.settings:
                        remedy = f"the header has {other}s: set {form.settings}delimiter: {other}"
                    elif other:
                        remedy = f"the header has {other}s: separate the cells with {separator}s"
                    raise DataError(
                        f"{path}, line {line}: {len(cells)} cells, but the header (line {header}) "
                        f"has {len(columns)}; the separator is a {separator}; {remedy}"
                    )
                line = reader.line_num + 1
    except csv.Error as error:
        reason = "double each quote inside a quoted cell"
        if "end of data" in str(error):
            reason = "a quote opened there is never closed"
        raise DataError(f"{path}, line {line}: {error}; {reason}{_escaped(path, form)}") from None
    except UnicodeError:
        # the file is decoded in blocks, so the error lies after this line
        with opened(path) as content:
            other = "utf-16" if content.read(2) in (b"\xff\xfe", b"\xfe\xff") else "cp1252"
        remedy = "save it as UTF-8"
        if form.settings:
            remedy += f", or set {form.settings}encoding, for example to {other}"
        raise DataError(
            f"{path}, after line {line}: not {form.encoding.upper()}; {remedy}"
        ) from None
    return SourceTable(path, "csv", columns, numbers, rows)


def _escaped(path: Path, form: CsvForm) -> str:
    """Return a hint for messages if a file has quotes that are escaped by a backslash."""
    with opened(path) as file:
        if form.quotes == "backslash" or not any(b'\\"' in line for line in file):
            return ""
    remedy = "double them instead"
    if form.settings == "corpus.table.":
        remedy = f"set {form.settings}quotes: backslash"
    return f'; the file escapes quotes as \\": {remedy}'


def other_separator(columns: Sequence[str], own: str = "") -> str | None:
    """Return the name of a separator, other than its ``own``, that is in the name of a file's only
    column, or None."""
    if len(columns) != 1:
        return None
    names = [name for name, sign in SEPARATORS.items() if name != own and sign in columns[0]]
    return names[0] if names else None


def is_index(name: str) -> bool:
    """Return whether a column contains the row numbers that programs write: it has no name, or a
    name that they give it."""
    return bool(_INDEX.fullmatch(name))


def shown_columns(names: Sequence[str]) -> str:
    """List the columns of a file for an error; without a header, a long name could be report text,
    so it is hidden."""
    return ", ".join(quoted(name, 50, 2) for name in names) or "no columns"


def _as_text(value: Any, place: str, decimal: bool, exact_below: int) -> str | None:
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
        if abs(value) >= exact_below:  # rounded; the checks of ids refuse the exponent
            return f"{value:e}"
        return str(value if decimal else int(value))
    return str(value)
