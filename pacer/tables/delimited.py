"""CSV and TSV files, read strictly.

The standard library reads them in strict mode: pyarrow reads an open quote as text up to the end of
the file, and polars pads short rows.
"""

import codecs
import csv
import re
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple

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
#: Excel's first line that names the separator.
_DECLARED = re.compile(r'"?sep=([,;\t|])"?\s*', re.IGNORECASE)
#: Separators that texts seldom contain, so that lines with the right number of them are rows.
_SELDOM_IN_TEXT = ("tab", "pipe")
_ENCODING_REMEDY = "save it as UTF-8, or for a corpus set corpus.table.encoding"


class CsvForm(NamedTuple):
    """The format of a CSV file, if it differs from the default for its name."""

    #: A name of ``SEPARATORS``; None: a comma, or a tab in ``.tsv``.
    delimiter: str | None = None
    #: One of Python's names of encodings.
    encoding: str = "utf-8"


class _Quoting(NamedTuple):
    """The lines of a file, and signs that its quoting is another one, with the polars line that
    reads it."""

    path: Path
    separator: str
    encoding: str
    lines: list[str]

    @property
    def sign(self) -> str:
        return SEPARATORS[self.separator]

    def are_rows(self, lines: Sequence[str], num_columns: int) -> bool:
        """Return whether each of several lines could be a row of a file without quoting."""
        may_be = len(lines) > 1 < num_columns and self.separator in _SELDOM_IN_TEXT
        return may_be and all(line.count(self.sign) == num_columns - 1 for line in lines)

    def mended(self, sentence: str, name: str) -> str:
        line = mending_line(name, self.path, separator=self.sign, encoding=self.encoding)
        return f"{sentence}:\n{line}"

    def none(self) -> str:
        sentence = "if the file is written without quoting, its quotation marks are text"
        return self.mended(sentence, "without_quotes")

    def remedy(self, cells: Sequence[str], num_columns: int) -> str:
        """Return what to do with a file whose row has too few or too many cells, or no end; "" if
        that is unknown."""
        if len(cells) == 1 and cells[0].count(self.sign) >= max(num_columns - 1, 1):
            return self.mended("the whole line is in quotes; this reads it", "lines_in_quotes")
        if any('\\"' in line for line in self.lines):
            sentence = 'the file escapes quotes as \\", which this doubles'
            return self.mended(sentence, "quotes_after_backslash")
        filled = [line for line in self.lines if line.strip("\r\n")]
        return self.none() if not cells and self.are_rows(filled, num_columns) else ""


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
    lines = _decoded_lines(path, form)
    declared = _DECLARED.fullmatch(lines[0]) if lines else None
    if declared:
        separator = next(name for name, sign in SEPARATORS.items() if sign == declared[1])
        lines[0] = ""
    quoting = _Quoting(path, separator, form.encoding, lines)
    reader = csv.reader(lines, delimiter=quoting.sign, strict=True)
    try:
        for cells in reader:
            if not columns:
                columns = cells
                header = line
                _check_separator(path, columns, separator)
            elif len(cells) not in (0, len(columns)):
                titles = "quote any cell that contains one, and remove titles above the header"
                raise DataError(
                    f"{path}, line {line}: {len(cells)} cells, but the header (line {header}) has "
                    f"{len(columns)}; the separator is a {separator}; "
                    f"{quoting.remedy(cells, len(columns)) or titles}"
                )
            elif quoting.are_rows(lines[line - 1 : reader.line_num], len(columns)):
                raise DataError(
                    f"{path}, line {line}: a quoted cell holds {reader.line_num - line + 1} whole "
                    f"rows; {quoting.none()}"
                )
            else:
                numbers.append(line)
                rows.append(tuple(cells) or (None,) * len(columns))
            line = reader.line_num + 1
    except csv.Error as error:
        remedy = "double each quote inside a quoted cell"
        if "end of data" in str(error):
            remedy = "a quote opened there is never closed"
        remedy = quoting.remedy([], len(columns)) or remedy
        raise DataError(f"{path}, line {line}: {error}; {remedy}") from None
    number = columns[0].count(quoting.sign) if len(columns) == 1 else 0
    if number and all(row[0].count(quoting.sign) >= number for row in rows if row[0]):
        raise DataError(f"{path}, line {header}: {quoting.remedy(columns, 1)}")
    read = reading(path, quoting.sign, form.encoding, skip_lines=int(declared is not None))
    return SourceTable(path, "csv", columns, numbers, rows, reading=read)


def _decoded_lines(path: Path, form: CsvForm) -> list[str]:
    """Return the lines of a file. Raises a DataError if they are not in the form's encoding, or in
    UTF-16, which some other encodings decode to a wrong text."""
    with opened(path) as content:
        mark = content.read(2)
    utf16 = "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else ""
    if mark.count(0) == 1:
        utf16 = "utf-16-be" if mark[0] == 0 else "utf-16-le"
    encoding = form.encoding.upper()
    if utf16 and not codecs.lookup(form.encoding).name.startswith("utf-16"):
        raise DataError(f"{path}: UTF-16, not {encoding}; {_ENCODING_REMEDY}: {utf16}")
    lines: list[str] = []
    try:
        with opened(path) as content, TextIOWrapper(content, form.encoding, newline="") as file:
            lines.extend(file)
    except UnicodeError:
        line = _first_undecodable_line(path, form.encoding)
        raise DataError(
            f"{path}, line {line}: not {encoding}; {_ENCODING_REMEDY}, for example to cp1252"
        ) from None
    if lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    return lines


def _first_undecodable_line(path: Path, encoding: str) -> int:
    """Return the number of the first line that is not in the encoding."""
    with opened(path) as content:
        written = content.read()
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        decoder.decode(written, final=True)
    except UnicodeDecodeError as error:
        return 1 + written[: error.start].decode(encoding, errors="replace").count("\n")
    except UnicodeError:  # of UTF-16, at the first character
        pass
    return 1


def _check_separator(path: Path, columns: Sequence[str], own: str) -> None:
    """Raise a DataError if the name of a file's only column has another separator than its own."""
    if len(columns) != 1:
        return
    if others := [name for name, sign in SEPARATORS.items() if name != own and sign in columns[0]]:
        raise DataError(
            f"{path}: the separator is a {own}, but the header has {others[0]}s; set the delimiter "
            f"to {others[0]} (corpus.table.delimiter, `--delimiter`, or delimiter= in Python), or "
            f"separate the cells with {own}s"
        )
