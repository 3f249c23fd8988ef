#!/bin/sh
# polars' `read_excel` looks at the first 100 rows of a workbook to choose the type of a column. If these hold dates and
# a later cell holds a date as text (03.07.2024), the cell becomes null, without an error or a warning. If the text stands
# within the first 100 rows, the whole column is text and nothing is lost. The engine openpyxl raises an error if a date
# comes before the text, and gives text if the text comes first.
# Expected: an error, or a column of text, wherever the cell stands; `read_csv` raises an error in that case.
# Spreadsheets mix the two when they open a CSV file of another country: days up to 12 become dates, the others stay text.
# Examinations then have no date, and so no previous study. Read all cells as text: `infer_schema_length=0`.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "polars==2.1.0" "fastexcel==0.21.0" "openpyxl==3.1.5"
cat > "$folder/read.py" <<'PYTHON'
import sys
import warnings
from datetime import datetime

import openpyxl
import polars as pl

warnings.simplefilter("error")
day, text = datetime(2024, 7, 2), "03.07.2024"


def read(cells, **options):
    book = openpyxl.Workbook()
    for number, cell in enumerate(("date", *cells)):
        book.active.append([f"id {number}", cell])
    book.save(sys.argv[1])
    try:
        column = pl.read_excel(sys.argv[1], **options)["date"]
    except pl.exceptions.PolarsError as error:
        return type(error).__name__
    return f"{column.dtype}, last: {column[-1]}, {column.null_count()} null"


print("polars", pl.__version__)
found = {
    "99 dates, a text": read([day] * 99 + [text]),
    "100 dates, a text": read([day] * 100 + [text]),
    "100 dates, a text, all as text": read([day] * 100 + [text], infer_schema_length=0),
    "2 dates, a text, engine openpyxl": read([day] * 2 + [text], engine="openpyxl"),
    "a text, 2 dates, engine openpyxl": read([text, day, day], engine="openpyxl"),
}
for case, result in found.items():
    print(f"{case}: {result}")
raise SystemExit(
    [*found.values()]
    != [
        "String, last: 03.07.2024, 0 null",
        "Date, last: None, 1 null",
        "String, last: 03.07.2024, 0 null",
        "ComputeError",
        "String, last: 2024-07-02 00:00:00, 0 null",
    ]
)
PYTHON
"$folder/venv/bin/python" "$folder/read.py" "$folder/table.xlsx"
