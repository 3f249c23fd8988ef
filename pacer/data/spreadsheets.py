"""Reading of Excel's files, whose cells have types: dates, numbers with a format, formulas, merged cells."""

import re
import warnings
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError

#: Rows by Excel's numbers.
Rows = dict[int, tuple[Any, ...]]


def read_sheet(path: Path, name: str | None) -> tuple[list[str], Rows, dict[str, int]]:
    """Return the header (the first row that is not empty) and the other rows of a sheet, and the number of rows of each
    other sheet. Formulas have the value that was saved, and all rows of a merged cell its value.

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
        raise DataError(
            f"{path} needs the package openpyxl: `pip install openpyxl` (in the clone: `pip install -c constraints.txt "
            "'.[excel]'`); or save the sheet as CSV (UTF-8)"
        ) from None
    except Exception:  # from a zip file, its XML, or openpyxl
        raise DataError(f"{path} cannot be read: it is damaged, has a password, or is no .xlsx file") from None
    sheets = {sheet.title: _rows(sheet) for sheet in book.worksheets}
    name = name or next(sheet.title for sheet in book.worksheets if sheet.sheet_state == "visible")
    if name not in sheets:
        raise DataError(f"{path} has no sheet {name}, only {', '.join(sheets)}; set corpus.table.sheet")
    for cell in (cell for row in formulas[name].iter_rows() for cell in row):
        if cell.data_type == "f" and book[name][cell.coordinate].value is None:
            raise DataError(
                f"{path}, {name}, cell {cell.coordinate}: the value of the formula was not saved; open the file in a "
                "spreadsheet program and save it again"
            )
    rows = sheets.pop(name)
    header = rows.pop(min(rows), ()) if rows else ()
    used = [place for place in range(len(header)) if any(row[place] is not None for row in (header, *rows.values()))]
    names = ["" if header[place] is None else str(header[place]) for place in used]
    selected = {number: tuple(row[place] for place in used) for number, row in rows.items()}
    return names, selected, {title: len(others) for title, others in sheets.items()}


def _rows(sheet: Any) -> Rows:
    """Return the values of the rows that are not empty."""
    for area in [*sheet.merged_cells.ranges]:
        first = sheet.cell(area.min_row, area.min_col)
        sheet.unmerge_cells(str(area))
        for row in range(area.min_row + 1, area.max_row + 1):
            sheet.cell(row, area.min_col, first.value).number_format = first.number_format
    rows = {cells[0].row: tuple(map(_value, cells)) for cells in sheet.iter_rows()}
    return {number: row for number, row in rows.items() if any(value is not None for value in row)}


def _value(cell: Any) -> Any:
    """Return what a cell shows: a day without a time, an id with its zeros, a rounded number with an exponent."""
    value, form = cell.value, cell.number_format
    if isinstance(value, datetime) and "h" not in form.lower():
        return value.date()
    if isinstance(value, int | float) and abs(value) >= 10**15:  # Excel keeps 15 digits
        return f"{value:e}"
    return f"{int(value):0{len(form)}}" if re.fullmatch("0+", form) and isinstance(value, int | float) else value
