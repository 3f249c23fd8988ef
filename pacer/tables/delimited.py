"""CSV and TSV files, read strictly.

The standard library reads them in strict mode: pyarrow reads an open quote as text up to the end of
the file, and polars pads short rows.
"""

import csv
import re
from collections.abc import Sequence
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from pacer.core.errors import DataError
from pacer.core.io import opened
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
#: A quote after a backslash that is not escaped itself.
_ESCAPED_QUOTE = re.compile(r'(?<!\\)((?:\\\\)*)\\"')


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


def read_csv(path: Path, form: CsvForm) -> SourceTable:
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
                    _check_separator(path, columns, separator, form)
                elif len(cells) in (0, len(columns)):
                    numbers.append(line)
                    rows.append(tuple(cells) or (None,) * len(columns))
                else:
                    remedy = (
                        "quote any cell that contains one, and remove titles above the "
                        f"header{_escaped(path, form)}"
                    )
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
        if form.settings not in ("", OPTION):
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


def _check_separator(path: Path, columns: Sequence[str], own: str, form: CsvForm) -> None:
    """Raise a DataError if the name of a file's only column has another separator than its own."""
    if len(columns) != 1:
        return
    if others := [name for name, sign in SEPARATORS.items() if name != own and sign in columns[0]]:
        raise DataError(
            f"{path}: the separator is a {own}, but the header has {others[0]}s: "
            f"{form.remedy(others[0], own)}"
        )
