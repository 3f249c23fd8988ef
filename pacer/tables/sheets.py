"""Sheets of Excel's workbooks."""

import re
import warnings
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError
from pacer.tables.table import SourceTable

#: Excel keeps 15 digits of a number.
_EXCELS_LARGEST = 10**15
#: A part of a number format: a digit, words in quotes, an escaped sign, or another sign.
_FORMAT = re.compile(r'0|"[^"]*"|\\.|[-/ ()]')


def read_sheet(path: Path, name: str | None) -> SourceTable:
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
