"""Tables that users bring: CSV, JSON lines and Parquet, read strictly.

A file that is damaged anywhere is refused as a whole: what follows a stray quote or a cut cannot be trusted. CSV is
read by the standard library in its strict mode: pyarrow takes an open quote for text up to the end of the file, and
polars fills up short rows. Messages name the file, the line (of Parquet the row) and the column, say what arrived and
what was expected, and never quote a cell.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import numbered_jsonl, opened
from pacer.data.values import quoted, shown

#: Characters of one cell at most. Reports exceed the default of the module csv, which has one limit for all readers.
LARGEST = 1 << 24
csv.field_size_limit(LARGEST)

Kind = Literal["csv", "json", "jsonl", "parquet"]

#: What may stand between the cells of a CSV file, by its name in settings.
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
#: Half of a surrogate pair, which JSON can spell but no table can hold.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class CsvForm(NamedTuple):
    """How a CSV file is written, where that is not what its name says.

    ``delimiter``: a name of :data:`SEPARATORS`; None: a comma, in ``.tsv`` a tab. ``encoding``: a name that Python
    knows. ``settings``: where a user says so, for messages.
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    settings: str = ""


AS_NAMED = CsvForm()


class Table(NamedTuple):
    """The content of a file; see :func:`open_table`.

    Attributes:
        columns: as the file names them, in its order.
        numbers: of each row: the line that it begins in; where there are no lines, as in Parquet, its number from 1.
        rows: a value for each column: text in CSV (None in a blank line), else as the file types them.
    """

    path: Path
    kind: Kind
    columns: list[str]
    numbers: Sequence[int]
    rows: list[tuple[Any, ...]]

    @property
    def unit(self) -> str:
        """What ``numbers`` count."""
        return "line" if self.kind in ("csv", "jsonl") else "row"

    @property
    def places(self) -> list[str]:
        """Each row for messages: ``line 3``."""
        return [f"{self.unit} {number}" for number in self.numbers]

    def only(self, name: str) -> str | None:
        """The column of a name, whatever its case and the blanks around it; None without one.

        Raises:
            DataError: several columns have the name.
        """
        columns = [column for column in self.columns if column.strip().lower() == name.lower()]
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


def open_table(path: str | Path, form: CsvForm = AS_NAMED) -> Table:
    """Read a table: ``.csv``, ``.tsv``, ``.jsonl`` (also ``.gz``) or ``.parquet``.

    Raises:
        DataError: the file is missing, of another kind, or damaged anywhere; a row of CSV has more or fewer cells than
            the header, or a line of JSON is no object.
    """
    path = Path(path)
    kind = kind_of(path)
    try:
        if kind == "csv":
            return _read_csv(path, form)
        if kind == "parquet":
            with open(path, "rb") as file:
                frame = pl.read_parquet(file)
            return Table(path, kind, frame.columns, range(1, frame.height + 1), frame.rows())
        lines = list(numbered_jsonl(path))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged, or not what its name says"
        raise DataError(f"{path} cannot be read: {reason}") from None
    for number, line in lines:
        if not isinstance(line, dict):
            raise DataError(f"{path}, line {number}: expected an object, got {shown(line)}")
    columns = list(dict.fromkeys(name for _, line in lines for name in line))
    return Table(
        path, kind, columns, [number for number, _ in lines], [tuple(map(line.get, columns)) for _, line in lines]
    )


def kind_of(path: str | Path) -> Kind:
    """What a table is, by the ending of its name; ``csv`` for ``.tsv`` as well.

    Raises:
        DataError: the ending is that of no table.
    """
    name = Path(path).name.lower()
    if name.endswith(".parquet"):
        return "parquet"
    if name.removesuffix(".gz").endswith((".csv", ".tsv")):
        return "csv"
    if name.removesuffix(".gz").endswith(".jsonl"):
        return "jsonl"
    raise DataError(
        f"{path} must be a table: .csv, .tsv, .jsonl (also .gz) or .parquet; save a spreadsheet as CSV (UTF-8)"
    )


def _read_csv(path: Path, form: CsvForm) -> Table:
    """UTF-8 comes with or without a byte order mark. Blank lines above the header are passed over."""
    columns: list[str] = []
    numbers: list[int] = []
    rows: list[tuple[str | None, ...]] = []
    line = 1
    separator = form.delimiter or ("tab" if path.name.lower().removesuffix(".gz").endswith(".tsv") else "comma")
    try:
        with opened(path) as content, TextIOWrapper(content, form.encoding, newline="") as file:
            lines = chain([file.readline().removeprefix("\ufeff")], file)
            reader = csv.reader(lines, delimiter=SEPARATORS[separator], strict=True)
            for cells in reader:
                if not columns:
                    columns = cells
                elif len(cells) in (0, len(columns)):
                    numbers.append(line)
                    rows.append(tuple(cells) or (None,) * len(columns))
                else:
                    raise DataError(
                        f"{path}, line {line}: {len(cells)} cells, but the header has {len(columns)}; the separator "
                        f"is read as {separator}, and a cell that holds one needs quotes"
                    )
                line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {line}: {error}; the file is cut off or its quotes do not match") from None
    except UnicodeError:
        # the file is decoded in blocks, so the place is a little further on
        way = f", or set {form.settings}encoding, for example to cp1252" if form.settings else ""
        raise DataError(
            f"{path}, after line {line}: not {form.encoding.upper()}; save the file as UTF-8{way}"
        ) from None
    return Table(path, "csv", columns, numbers, rows)


def shown_columns(names: Sequence[str]) -> str:
    """The columns of a file, for an error; a long name could be report text where the file has no header."""
    return ", ".join(quoted(name, 50, 2) for name in names) or "no columns"


def _as_text(value: Any, place: str, decimal: bool) -> str | None:
    if value is None or value != value:  # null or NaN
        return None
    if isinstance(value, str):
        if _LONE_SURROGATE.search(value):
            raise DataError(f"{place}: half of a surrogate pair is in the text: the file is damaged")
        return value
    if isinstance(value, datetime) and value.tzinfo is not None:
        # in UTC order and gaps stay right when the clocks change
        value = value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | date | time):
        raise DataError(f"{place}: expected text or a number, got {shown(value)}")
    is_whole = isinstance(value, float) and value.is_integer() and not decimal
    return str(int(value) if is_whole else value)
