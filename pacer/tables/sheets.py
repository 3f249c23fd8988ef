"""Sheets of Excel's workbooks."""

import warnings
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError
from pacer.tables.mending import reading
from pacer.tables.table import SourceTable

#: Excel keeps 15 digits of a number.
_EXCELS_LARGEST = 10**15


def read_sheet(path: Path, name: str | None) -> SourceTable:
    """Read a sheet of a workbook, whose first row that is not empty has the names of the columns.
    Formulas have the value that was saved.

    Args:
        name: name of the sheet; None: the first visible sheet.

    Raises:
        DataError: openpyxl is not installed, the file cannot be read or has no such sheet, a
            formula has no value, cells are merged, or a title is above the header.
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
    if areas := sheet.merged_cells.ranges:
        raise DataError(
            f"{path}, {name}: the cells {next(iter(areas))} are merged; unmerge the cells of the "
            "sheet, and fill each of them, in a spreadsheet program"
        )
    rows = {cells[0].row: tuple(map(_cell_value, cells)) for cells in sheet.iter_rows()}
    num_filled = {number: sum(cell is not None for cell in row) for number, row in rows.items()}
    rows = {number: row for number, row in rows.items() if num_filled[number]}
    first = min(rows, default=0)
    below = next((number for number in rows if num_filled[number] > 1), first)
    if below > first:
        raise DataError(
            f"{path}, {name}: row {first} has one cell and row {below} has {num_filled[below]}; "
            "the first row must hold the column names, so delete the rows above them in a "
            "spreadsheet program"
        )
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
        reading=reading(path, sheet=name),
    )


def _cell_value(cell: Any) -> Any:
    """Return the value of a cell: a day without a time if it is shown so, a number of more digits
    than Excel keeps with an exponent."""
    value = cell.value
    if isinstance(value, datetime) and "h" not in cell.number_format.lower():
        return value.date()
    if isinstance(value, int | float) and abs(value) >= _EXCELS_LARGEST:
        return f"{value:e}"
    return value
