"""Columns of tables: ids are text."""

import json
from datetime import date, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.tables.files import open_table


def sheet(path: Path, *rows: tuple[Any, ...], formats: dict[str, str] | None = None) -> Path:
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra `excel`")
    book = openpyxl.Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    for place, form in (formats or {}).items():
        book.worksheets[0][place].number_format = form
    book.save(path)
    return path


def write(path: Path, values: list[Any]) -> Path:
    """Write a table with a column id."""
    if path.suffix == ".csv":
        path.write_text("".join(f"{line}\n" for line in ["id,n", *(f"{v},1" for v in values)]))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"id": value}) + "\n" for value in values))
    elif path.suffix == ".parquet":
        pl.DataFrame({"id": values}).write_parquet(path)
    else:
        sheet(path, ("id", "n"), *((value, 1) for value in values))
    return path


@pytest.mark.parametrize(
    ("suffix", "values", "expected"),
    [
        (
            ".csv",
            ["007", " p1 ", "", "1.2.840.1", "12E4", "a,b"[:1], "p1/1.5", "2018-01"],
            ["007", "p1", None, "1.2.840.1", "12E4", "a", "p1/1.5", "2018-01"],
        ),
        (".jsonl", [7, "007", None, 10**17, " "], ["7", "007", None, str(10**17), None]),
        (".parquet", [7, None, 2**60], ["7", None, str(2**60)]),
        (".parquet", ["7", None, "007 "], ["7", None, "007"]),
        (".parquet", [None, None], [None, None]),
        (
            ".xlsx",
            [7.0, 7, "007", None, 999_999_999_999_999.0, -3],
            ["7", "7", "007", None, "999999999999999", "-3"],
        ),
    ],
)
def test_ids_are_text(
    suffix: str, values: list[Any], expected: list[str | None], tmp_path: Path
) -> None:
    ids = open_table(write(tmp_path / f"t{suffix}", values)).ids("id")
    assert ids.to_list() == expected and ids.dtype == pl.String


@pytest.mark.parametrize(
    ("suffix", "values", "message"),
    [
        (".csv", ["1", "101.0"], "line 3, id: got the number 101.0; ids are text; remove the"),
        (".csv", ["1.5", "101.0"], "line 2, id: got the number 1.5; ids are text; this one may"),
        (".csv", ["1.23457E+12"], "got the number 1.23457E+12; ids are text; this one may"),
        (".csv", ['"101,0"'], "got the number 101,0; ids are text; remove the point"),
        (".csv", ['"1,23E+12"'], "got the number 1,23E+12; ids"),
        (".jsonl", [1, 101.0], "line 2, id: got the number 101.0; ids are text; remove"),
        (".jsonl", ["101.0"], "line 1, id: got the number 101.0; ids are text; remove"),
        (".jsonl", [True], "line 1, id: expected an id, which is text, got True"),
        (".jsonl", [["p1"]], "line 1, id: expected an id, which is text, got a list of length 1"),
        (".parquet", [7.0, None], "row 1, id: got the number 7.0; ids are text; remove"),
        (".parquet", [Decimal("7.00")], "row 1, id: got the number 7.00; ids are text; remove"),
        (".parquet", [date(2018, 1, 5)], "row 1, id: expected an id, which is text, got a date"),
        (".xlsx", [7.0, 7.5], "row 3, id: got the number 7.5; ids are text; this one may"),
        (".xlsx", [1e15], "row 2, id: got the number 1.000000e+15; ids are text; this one"),
        (".xlsx", [date(2018, 1, 5)], "row 2, id: expected an id, which is text, got a date"),
    ],
)
def test_decimal_numbers_are_no_ids(
    suffix: str, values: list[Any], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / f"t{suffix}", values)
    with pytest.raises(DataError) as caught:
        open_table(path).ids("id")
    assert str(caught.value).startswith(f"{path}, ") and message in str(caught.value)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".xlsx"])
def test_the_line_for_ids_runs(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(Path(f"t{suffix}"), ["101.0"] if suffix == ".xlsx" else [101.0])
    with pytest.raises(DataError) as caught:
        open_table(path).ids("id")
    exec(str(caught.value).partition("\n")[2], {})
    assert open_table("t.mended.parquet").ids("id").to_list() == ["101"]


def test_cells_of_a_workbook_have_their_values(tmp_path: Path) -> None:
    formats = {"A3": '"P"0000', "B3": "yyyy-mm-dd", "B4": "yyyy-mm-dd hh:mm"}
    rows = (
        (),
        ("id", "date", None, "n"),
        (7, datetime(2020, 4, 3)),
        (8, datetime(2020, 4, 3), None, 1.5),
        (),
        ("x",),
    )
    table = open_table(sheet(tmp_path / "t.xlsx", *rows, formats=formats))
    assert table.columns == ["id", "date", "n"] and table.places == ["row 3", "row 4", "row 6"]
    days = [date(2020, 4, 3), datetime(2020, 4, 3), None]
    assert table.ids("id").to_list() == ["7", "8", "x"] and table.values("date") == days
    assert table.values("n") == [None, 1.5, None]


def test_titles_and_merged_cells_are_refused(tmp_path: Path) -> None:
    path = sheet(tmp_path / "t.xlsx", ("Radiographs of 2020",), (), ("id", "text"), ("1", "a"))
    with pytest.raises(DataError, match=r"t\.xlsx, Sheet: row 1 has one cell and row 3 has 2; the"):
        open_table(path)
    sheet(path, ("id", "text"), ("1", "a"), (None, "b"))
    book = import_module("openpyxl").load_workbook(path)
    book.worksheets[0].merge_cells("A2:A3")
    book.save(path)
    with pytest.raises(DataError, match=r"t\.xlsx, Sheet: the cells A2:A3 are merged; unmerge"):
        open_table(path)
    assert open_table(sheet(path, ("text",), ("a",))).rows == [("a",)]
