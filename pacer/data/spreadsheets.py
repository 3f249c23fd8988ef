"""Reading of Excel's files, whose cells have types: dates, numbers with a format, formulas, merged cells."""

import re
import warnings
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError

#: Excel keeps 15 digits of a number.
_LARGEST = 10**15


def read_sheet(path: Path, name: str | None) -> tuple[list[str], dict[int, tuple[Any, ...]], dict[str, int]]:
    """Return the header (the first row that is not empty), the other rows by their numbers, and the numbers of rows of
    the other sheets. Formulas have the value that was saved, and all rows of a merged cell its value.

    Args:
        name: of the sheet; None: the first visible one.

    Raises:
        DataError: openpyxl is not installed, the file cannot be read, has no such sheet, or a formula has no value.
    """
    try:
        load = import_module("openpyxl").load_workbook
        with warnings.catch_warnings(action="ignore"):  # about styles and extensions
            book, formulas = load(path, data_only=True), load(path)
    except FileNotFoundError:
        raise
    except ModuleNotFoundError:
        way = "`pip install openpyxl` (in the clone: `pip install -c constraints.txt '.[excel]'`)"
        raise DataError(f"{path} needs the package openpyxl: {way}; or save the sheet as CSV (UTF-8)") from None
    except Exception:  # from a zip file, its XML, or openpyxl
        raise DataError(f"{path} cannot be read: it is damaged, has a password, or is no .xlsx file") from None
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    name = name or next(title for title, sheet in sheets.items() if sheet.sheet_state == "visible")
    if name not in sheets:
        raise DataError(f"{path} has no sheet {name}, only {', '.join(sheets)}; set corpus.table.sheet")
    sheet = sheets.pop(name)
    for cell in (cell for row in formulas[name].iter_rows() for cell in row):
        if cell.data_type == "f" and sheet[cell.coordinate].value is None:
            way = "open the file in a spreadsheet program and save it again"
            raise DataError(f"{path}, {name}, cell {cell.coordinate}: the value of the formula was not saved; {way}")
    for area in [*sheet.merged_cells.ranges]:
        first = sheet.cell(area.min_row, area.min_col)
        sheet.unmerge_cells(str(area))
        for row in range(area.min_row + 1, area.max_row + 1):
            sheet.cell(row, area.min_col, first.value).number_format = first.number_format
    rows = {cells[0].row: tuple(map(_value, cells)) for cells in sheet.iter_rows()}
    rows = {number: row for number, row in rows.items() if any(value is not None for value in row)}
    header = rows.pop(min(rows), ()) if rows else ()
    columns = [
        place for place, name in enumerate(header) if name is not None or any(row[place] for row in rows.values())
    ]
    names = ["" if header[place] is None else str(header[place]) for place in columns]
    unread = {title: sheet.max_row for title, sheet in sheets.items() if sheet.max_row > 1}
    return names, {number: tuple(row[place] for place in columns) for number, row in rows.items()}, unread


def _value(cell: Any) -> Any:
    """Return what a cell shows: a day without a time, an id with its zeros, a rounded number with an exponent."""
    value, form = cell.value, cell.number_format
    if isinstance(value, datetime) and "h" not in form.lower():
        return value.date()
    if not isinstance(value, int | float):
        return value
    if abs(value) >= _LARGEST:
        return f"{value:e}"
    return f"{int(value):0{len(form)}}" if re.fullmatch("0+", form) else value
