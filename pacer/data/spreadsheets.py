"""Reading of Excel's files, whose cells have types: dates, numbers with a format, formulas, merged cells."""

from __future__ import annotations

import re
import warnings
import zipfile
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from pacer.core.errors import DataError

#: Excel keeps fifteen digits of a number.
_LARGEST = 10**15


class Sheet(NamedTuple):
    """``header`` and ``rows`` (by Excel's numbers) of a sheet; ``others``: number of filled rows of each other one."""

    header: list[str]
    rows: dict[int, tuple[Any, ...]]
    others: dict[str, int]


def read_sheet(path: Path, name: str | None) -> Sheet:
    """Read a sheet of an ``.xlsx`` file: values of formulas as they were saved, and in all rows of a merged cell its
    value. The first row that is not empty is the header.

    Args:
        name: of the sheet; None: the first visible one.

    Raises:
        DataError: openpyxl is not installed, the file cannot be read, has no such sheet, or a formula has no value.
    """
    try:
        openpyxl = import_module("openpyxl")
    except ModuleNotFoundError:
        raise DataError(
            f"{path} needs the package openpyxl: `pip install openpyxl` (in the clone: `pip install -c constraints.txt "
            "'.[excel]'`); or save the sheet as CSV (UTF-8)"
        ) from None
    try:
        with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path) as parts:  # about styles and extensions
            book = openpyxl.load_workbook(path, data_only=True)
            has_formulas = any(b"<f" in parts.read(part) for part in parts.namelist() if "/worksheets/" in part)
            formulas = openpyxl.load_workbook(path) if has_formulas else book
    except FileNotFoundError:
        raise
    except Exception:  # from a zip file, its XML, or openpyxl
        raise DataError(f"{path} cannot be read: it is damaged, has a password, or is no .xlsx file") from None
    visible = [sheet.title for sheet in book.worksheets if sheet.sheet_state == "visible"]
    if (name := name or visible[0]) not in [sheet.title for sheet in book.worksheets]:
        raise DataError(f"{path} has no sheet {name}; it has {', '.join(visible)} (corpus.table.sheet)")
    for row in formulas[name].iter_rows():
        for cell in row:
            if cell.data_type == "f" and book[name][cell.coordinate].value is None:
                raise DataError(
                    f"{path}, {name}, cell {cell.coordinate}: the value of the formula was not saved; open the file in "
                    "a spreadsheet program and save it again"
                )
    rows = _rows(book[name])
    others = {sheet.title: len(_rows(sheet)) for sheet in book.worksheets if sheet.title != name}
    header = rows.pop(min(rows), ()) if rows else ()
    used = [place for place in range(len(header)) if any(row[place] is not None for row in (header, *rows.values()))]
    names = ["" if header[place] is None else str(header[place]) for place in used]
    return Sheet(names, {number: tuple(row[place] for place in used) for number, row in rows.items()}, others)


def _rows(sheet: Any) -> dict[int, tuple[Any, ...]]:
    """Return the values of the rows that are not empty, by number."""
    merged = {
        (row, area.min_col): (area.min_row, area.min_col)
        for area in sheet.merged_cells.ranges
        for row in range(area.min_row + 1, area.max_row + 1)
    }
    rows = {
        cells[0].row: tuple(
            _value(sheet.cell(*merged[place])) if (place := (cell.row, cell.column)) in merged else _value(cell)
            for cell in cells
        )
        for cells in sheet.iter_rows()
    }
    return {number: row for number, row in rows.items() if any(value is not None for value in row)}


def _value(cell: Any) -> Any:
    """Return what a cell shows: an id with its leading zeros, a day without a time."""
    value, form = cell.value, cell.number_format
    if isinstance(value, datetime) and "h" not in form.lower():
        return value.date()
    if isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) >= _LARGEST:
            return f"{value:e}"  # rounded: the exponent tells the checks of ids
        if re.fullmatch("0+", form) and value == int(value):
            return f"{int(value):0{len(form)}}"
    return None if value == "" else value
