"""CSV files, read strictly: a stray quote or a file that is cut off is an error, where a lenient reader would take
all that follows for one cell, or a part for the whole.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError

#: Characters of one cell at most.
LARGEST = 1 << 24
# The limit belongs to the module csv and is looked up at every cell, so a reader cannot have one of its own. Reports
# exceed the default of 131,072 characters. It is raised here, once, and never lowered.
csv.field_size_limit(max(csv.field_size_limit(), LARGEST))

_ENDINGS = (".csv", ".tsv")


def is_csv(path: Path) -> bool:
    """Whether the name is that of a file for :func:`csv_rows`."""
    return path.name.lower().removesuffix(".gz").endswith(_ENDINGS)


def separator_of(path: Path) -> str:
    """What stands between the cells of a file of that name."""
    return "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","


def csv_rows(path: Path) -> Iterator[list[str]]:
    """The header, then the rows, of a ``.csv`` or ``.tsv`` file, plain or ``.gz``; nothing from an empty file.

    Every row has as many cells as the header. A blank line is an empty list, so that callers can count it; blank lines
    above the header are passed over. In UTF-8, with or without a byte order mark.

    Raises:
        DataError: the file is missing or unreadable, is not UTF-8, has a row of another length than the header, or its
            quotes do not match. The message names the row, counted from 0 without the header, and its first line.
    """
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield from _rows(path, csv.reader(file, delimiter=separator_of(path), strict=True))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _rows(path: Path, reader: Any) -> Iterator[list[str]]:
    width, number, line = 0, -1, 1  # the row at hand, -1 for the header, and the line that it begins in
    while True:
        where = "the header" if number < 0 else f"row {number}, which begins in line {line}"
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{path}, {where}: {error}; the file is cut off or its quotes do not match") from None
        except UnicodeDecodeError as error:
            # the file is decoded in blocks, so the place is a little further on
            raise DataError(f"{path}, after {where}: not UTF-8 ({error.reason}); save the table as UTF-8") from None
        if cells is None:
            return
        line = reader.line_num + 1
        if number < 0 and not cells:
            continue
        if number < 0:
            width = len(cells)
        elif cells and len(cells) != width:
            fields = "1 field" if len(cells) == 1 else f"{len(cells)} fields"
            raise DataError(f"{path}, {where}: {fields}, but the header has {width}")
        number += 1
        yield cells
