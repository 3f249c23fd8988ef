"""CSV files, read strictly."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.data.tables import LARGEST, CsvForm, open_table

SECRET = "Zephyrine opacity"  # a report text that no message may hold


def rows_of(folder: Path, content: bytes | str, name: str = "t.csv") -> list[list[str]]:
    content = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
    return cells_of(folder / name)


def cells_of(path: Path) -> list[list[str]]:
    """Header and rows; a blank line is an empty list."""
    table = open_table(path)
    rows = [[] if row[0] is None else list(row) for row in table.rows]
    return [table.columns, *rows] if table.columns else []


@pytest.mark.parametrize("name", ["t.csv", "T.CSV.GZ", "t.tsv"])
def test_kinds_of_file(name: str, tmp_path: Path) -> None:
    text = '\ufeffa,b\r\n1,"x\r\ny ""z"""\r\n,\r\n'
    text = text.replace(",", "\t") if "tsv" in name else text
    assert rows_of(tmp_path, text, name) == [["a", "b"], ["1", 'x\r\ny "z"'], ["", ""]]


def test_other_files_are_not_csv() -> None:
    for name in ("t.gz", "csv", "t.csv.bz2", "t.xlsx"):
        with pytest.raises(DataError, match=r"must be a table: .*; save a spreadsheet as CSV \(UTF-8\)"):
            open_table(name)


def test_blank_lines(tmp_path: Path) -> None:
    """Before the header they are passed over; below it each is an empty row, to be counted or left out."""
    assert rows_of(tmp_path, "\n\r\na,b\n\n1,2\n\n") == [["a", "b"], [], ["1", "2"], []]
    assert rows_of(tmp_path, "") == rows_of(tmp_path, "\n\n") == []
    assert rows_of(tmp_path, "a,b") == [["a", "b"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f'1,c,Clear.,"ok\n2,c,{SECRET},bad\n', "line 2: unexpected end of data"),
        (f'1,c,d,e\n2,c,"Clear.","No pneumothorax. {SECRET}', "line 3: unexpected end of data"),
        (f'1,c,"a\nb",e\n\n2,c,"{SECRET}" x,e\n', "line 5: ',' expected after"),
        (f"1,c,d,e\n1,c,{SECRET}\n", "line 3: 3 cells, but the header has 4"),
        (f"1,c,d,e,{SECRET}\n", "line 2: 5 cells, but the header has 4"),
        (" \n", "line 2: 1 cells, but the header has 4"),
        (b"1,c,d,e\n1,c,caf\xe9,e\n", "not UTF-8"),
    ],
)
def test_damage_is_named_by_row_and_not_quoted(content: str | bytes, message: str, tmp_path: Path) -> None:
    content = content.encode() if isinstance(content, str) else content
    with pytest.raises(DataError) as caught:
        rows_of(tmp_path, b"uid,indication,findings,impression\n" + content)
    assert message in str(caught.value) and str(tmp_path / "t.csv") in str(caught.value)
    assert SECRET not in str(caught.value) and "caf" not in str(caught.value)


@pytest.mark.parametrize(("delimiter", "mark"), [("semicolon", ";"), ("tab", "\t"), ("pipe", "|"), ("comma", ",")])
def test_the_separator_is_the_one_that_is_set(delimiter: str, mark: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"id{mark}report\n1{mark}a b\n")
    assert open_table(tmp_path / "t.csv", CsvForm(delimiter)).rows == [("1", "a b")]


@pytest.mark.parametrize(
    ("name", "encoding", "mark"),
    [
        ("t.csv", "cp1252", ""),
        ("t.csv.gz", "utf-16", ""),
        ("t.csv", "UTF-8", ""),
        *(("t.csv", encoding, "\ufeff") for encoding in ("utf-8", "utf-8-sig", "utf-16-le", "utf-16")),
    ],
)
def test_encodings(name: str, encoding: str, mark: str, tmp_path: Path) -> None:
    """With and without a byte order mark, which is no part of the header."""
    text = mark + 'id;text\r\n\r\n1;"größer, als\r\nvorher"\r\n2;é\r\n'
    content = text.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    table = open_table(tmp_path / name, CsvForm("semicolon", encoding))
    assert table.columns == ["id", "text"]
    assert table.rows == [(None, None), ("1", "größer, als\r\nvorher"), ("2", "é")]
    assert list(table.numbers) == [2, 3, 5] and table.places[0] == "line 2"
    assert table.frame(["text"])["text"].drop_nulls().to_list() == ["größer, als\r\nvorher", "é"]


def test_another_encoding_is_named_where_it_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("a,b\ngrößer,c\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"not UTF-8; save the file as UTF-8, or set --encoding, for example to cp1252"):
        open_table(tmp_path / "t.csv", CsvForm(settings="--"))
    with pytest.raises(DataError, match=r"save the file as UTF-8$"):
        open_table(tmp_path / "t.csv")


def test_a_stray_quote_in_the_header(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 1: unexpected end of data"):
        rows_of(tmp_path, 'a,"b\n1,2\n')


def test_long_fields(tmp_path: Path) -> None:
    csv.field_size_limit(LARGEST)  # of the whole process: report_files, once called in it, lifts the limit
    assert len(rows_of(tmp_path, f'a\n"{"x" * 200_000}"\n')[1][0]) == 200_000
    with pytest.raises(DataError, match="line 2: field larger"):
        rows_of(tmp_path, f'a\n"{"x" * (LARGEST + 1)}"\n')


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv does not exist"):
        cells_of(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv cannot be read"):
        cells_of(tmp_path / "folder.csv")
    sound = gzip.compress(b"a,b\n1,2\n" * 2000)
    for content in (sound[:-9], sound[: len(sound) // 2], sound[:20] + b"\xff" * 9 + sound[29:]):
        (tmp_path / "t.csv.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"t\.csv\.gz cannot be read"):
            cells_of(tmp_path / "t.csv.gz")


def test_a_decimal_number_that_tells_no_neighbours_apart_keeps_its_exponent(tmp_path: Path) -> None:
    rows = [{"id": 2.0**53}, {"id": 1e17}, {"id": 101.0}, {"id": 10**17}]
    (tmp_path / "ids.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = open_table(tmp_path / "ids.jsonl")
    assert table.frame(["id"])["id"].to_list() == ["9.007199e+15", "1.000000e+17", "101", str(10**17)]
    with pytest.raises(DataError, match=r"line 1, id: 9\.007199e\+15 is an id that"):
        table.check_ids(["id"])


def test_a_column_of_32_bits_tells_fewer_numbers_apart(tmp_path: Path) -> None:
    pl.DataFrame({"id": [7.0, 2.0**24 - 1, 2.5, None]}, {"id": pl.Float32}).write_parquet(tmp_path / "ids.parquet")
    table = open_table(tmp_path / "ids.parquet")
    table.check_ids(["id"])
    assert table.frame(["id"])["id"].to_list() == ["7", "16777215", "2.5", None]
    pl.DataFrame({"id": [7.0, 50414267.0]}, {"id": pl.Float32}).write_parquet(tmp_path / "ids.parquet")
    with pytest.raises(DataError, match=r"row 2, id: .* is an id that .* has rounded"):
        open_table(tmp_path / "ids.parquet").check_ids(["id"])
