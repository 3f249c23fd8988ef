"""CSV and TSV files, read strictly.

The standard library reads them in strict mode: pyarrow reads an open quote as text up to the end of
the file, and polars pads short rows.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from pacer.core.errors import DataError
from pacer.core.io import opened
from pacer.tables.mending import mending_line, reading
from pacer.tables.table import SourceTable

#: Maximum number of characters in a cell. Reports exceed the default of the csv module, whose limit
#: is global.
LARGEST = 1 << 24
csv.field_size_limit(LARGEST)

#: Separators of CSV files, by their names in the settings.
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
#: Prefix of options of a command.
OPTION = "--"
#: Excel's first line that names the separator.
_DECLARED = re.compile(r'"?sep=([,;\t|])"?\s*', re.IGNORECASE)
#: Separators that texts seldom contain, so that lines with the right number of them are rows.
_SELDOM_IN_TEXT = ("tab", "pipe")


class CsvForm(NamedTuple):
    """The format of a CSV file, if it differs from the default for its name."""

    #: A name of ``SEPARATORS``; None: a comma, or a tab in ``.tsv``.
    delimiter: str | None = None
    #: One of Python's names of encodings.
    encoding: str = "utf-8"
    #: Prefix of the user's settings for these options, for messages; :data:`OPTION` if there is
    #: only an option for the delimiter.
    settings: str = ""
    #: A quote within quotes is doubled, or it follows a backslash, as Spark and Hive write it.
    quotes: Literal["doubled", "backslash"] = "doubled"

    def remedy(self, other: str, own: str) -> str:
        """Return what to do with a file whose header has the separator ``other``."""
        if not self.settings:
            return f"separate the cells with {own}s"
        if self.settings == OPTION and self.delimiter is not None:
            return f"`--delimiter` is for all files, so separate the cells of this one with {own}s"
        if self.settings == OPTION:
            return f'pass `--delimiter {other}`, in Python delimiter="{other}"'
        return f"set {self.settings}delimiter: {other}"


class _Quoting(NamedTuple):
    """Signs that the quoting of a file is another one, with the polars line that reads it."""

    path: Path
    separator: str
    encoding: str

    @property
    def sign(self) -> str:
        return SEPARATORS[self.separator]

    def _line(self, name: str) -> str:
        return mending_line(name, self.path, separator=self.sign, encoding=self.encoding)

    def _none(self) -> str:
        line = self._line("without_quotes")
        return f"if the file is written without quoting, its quotation marks are text:\n{line}"

    def check_row(self, line: int, lines: Sequence[str], num_columns: int) -> None:
        """Raise a DataError if each of a row's ``lines`` could be a row: a cell of a file without
        quoting began with a quotation mark, and a later one ended with one."""
        are_rows = all(text.count(self.sign) == num_columns - 1 for text in lines)
        if are_rows and len(lines) > 1 < num_columns and self.separator in _SELDOM_IN_TEXT:
            raise DataError(
                f"{self.path}, line {line}: a quoted cell holds {len(lines)} whole rows; "
                f"{self._none()}"
            )

    def of_line(self, cells: Sequence[str], num_separators: int) -> str:
        """Return what to do with a line that is one quoted cell; "" for another line."""
        if len(cells) != 1 or cells[0].count(self.sign) < max(num_separators, 1):
            return ""
        return f"the whole line is in quotes; this reads it:\n{self._line('lines_in_quotes')}"

    def of_file(self, num_columns: int) -> str:
        """Return what to do with a file whose quotes cannot be read; "" if that is unknown."""
        with opened(self.path) as file:
            content = file.read().decode(self.encoding, "replace")
        if '\\"' in content:
            line = self._line("quotes_after_backslash")
            return f'the file escapes quotes as \\", which this doubles:\n{line}'
        lines = [text for text in content.split("\n") if text.strip("\r")]
        are_rows = {text.count(self.sign) for text in lines} == {num_columns - 1}
        return self._none() if are_rows and self.separator in _SELDOM_IN_TEXT else ""


def read_csv(path: Path, form: CsvForm) -> SourceTable:
    """Read a CSV file, with or without a byte order mark. Blank lines above the header are skipped;
    a first line that names the separator takes precedence over the setting.

    Quotes within a quoted cell are doubled. Files with backslashes before them, without quoting or
    with whole lines in quotes are refused with the polars line that mends them.
    """
    columns: list[str] = []
    numbers: list[int] = []
    rows: list[tuple[str | None, ...]] = []
    line = 1
    header = 1
    is_tsv = path.name.lower().removesuffix(".gz").endswith(".tsv")
    separator = form.delimiter or ("tab" if is_tsv else "comma")
    declared = None
    of_row: list[str] = []
    _check_encoding(path, form)
    try:
        with opened(path) as content, TextIOWrapper(content, form.encoding, newline="") as file:
            first = file.readline().removeprefix("\ufeff")
            declared = _DECLARED.fullmatch(first)
            if declared:
                separator = next(name for name, sign in SEPARATORS.items() if sign == declared[1])
                first = ""
            quoting = _Quoting(path, separator, form.encoding)
            lines = _noted(chain([first], file), of_row)
            reader = csv.reader(lines, delimiter=SEPARATORS[separator], strict=True)
            for cells in reader:
                if not columns:
                    columns = cells
                    header = line
                    _check_separator(path, columns, separator, form)
                elif len(cells) in (0, len(columns)):
                    quoting.check_row(line, of_row, len(columns))
                    numbers.append(line)
                    rows.append(tuple(cells) or (None,) * len(columns))
                else:
                    remedy = quoting.of_line(cells, len(columns) - 1) or quoting.of_file(0)
                    remedy = remedy or (
                        "quote any cell that contains one, and remove titles above the header"
                    )
                    raise DataError(
                        f"{path}, line {line}: {len(cells)} cells, but the header (line {header}) "
                        f"has {len(columns)}; the separator is a {separator}; {remedy}"
                    )
                line = reader.line_num + 1
                of_row.clear()
    except csv.Error as error:
        remedy = "double each quote inside a quoted cell"
        if "end of data" in str(error):
            remedy = "a quote opened there is never closed"
        remedy = quoting.of_file(len(columns)) or remedy
        raise DataError(f"{path}, line {line}: {error}; {remedy}") from None
    except UnicodeError:
        # the file is decoded in blocks, so the error lies after this line
        remedy = _save(form, ", for example to cp1252")
        raise DataError(
            f"{path}, after line {line}: not {form.encoding.upper()}; {remedy}"
        ) from None
    if len(columns) == 1 and quoting.sign in columns[0]:
        lines = [columns[0], *(row[0] for row in rows if row[0])]
        number = columns[0].count(quoting.sign)
        if all(text.count(quoting.sign) >= number for text in lines):
            raise DataError(f"{path}, line {header}: {quoting.of_line(columns, number)}")
    read = reading(path, quoting.sign, form.encoding, skip_lines=int(declared is not None))
    return SourceTable(path, "csv", columns, numbers, rows, reading=read)


def _noted(lines: Iterable[str], notes: list[str]) -> Iterator[str]:
    """Yield lines, and append each to ``notes``."""
    for line in lines:
        notes.append(line)
        yield line


def _save(form: CsvForm, encoding: str) -> str:
    """Return what to do with a file of another encoding, whose name ends the sentence."""
    if form.settings in ("", OPTION):
        return "save it as UTF-8"
    return f"save it as UTF-8, or set {form.settings}encoding{encoding}"


def _check_encoding(path: Path, form: CsvForm) -> None:
    """Raise a DataError if a file is UTF-16 but the form says otherwise: other encodings can decode
    it to a wrong text."""
    with opened(path) as file:
        mark = file.read(2)
    encoding = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}.get(mark)
    if encoding is None and mark.count(0) == 1:
        encoding = "utf-16-be" if mark[0] == 0 else "utf-16-le"
    if encoding and not form.encoding.lower().replace("_", "-").startswith(("utf-16", "utf16")):
        raise DataError(
            f"{path}: UTF-16, not {form.encoding.upper()}; {_save(form, f': {encoding}')}"
        )


def _check_separator(path: Path, columns: Sequence[str], own: str, form: CsvForm) -> None:
    """Raise a DataError if the name of a file's only column has another separator than its own."""
    if len(columns) != 1:
        return
    if others := [name for name, sign in SEPARATORS.items() if name != own and sign in columns[0]]:
        raise DataError(
            f"{path}: the separator is a {own}, but the header has {others[0]}s: "
            f"{form.remedy(others[0], own)}"
        )
