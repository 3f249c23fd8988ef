"""The polars lines that mend tables run, here with the installed polars."""

import sys
from pathlib import Path

import polars as pl
import pytest

from pacer.tables.delimited import CsvForm
from pacer.tables.files import open_table
from pacer.tables.mending import NAMES, mended_path, mending_line, reading
from tests.support.mending import CASES, READ, Case, run
from tests.support.mending_lines import run_lines


def test_each_line_mends_odd_input(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="needs the extra `excel`")
    assert CASES.keys() == {*NAMES} and all(CASES.values())
    assert run_lines(sys.executable, tmp_path) == pl.__version__


def test_a_line_that_fails_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case = Case("t.csv", "date\n5 January 2018\n", {"column": "date"}, {"date": ["2018-01-05"]})
    with pytest.raises(pl.exceptions.InvalidOperationError):
        run(case, mending_line("dates_with_month_names", case.path, **case.values))
    with pytest.raises(AssertionError):
        run(case, mending_line("null_dates", case.path, date="1900", **case.values))


@pytest.mark.parametrize("name", ["explode_lists", "lists_as_text"])
def test_rows_with_lists_of_different_lengths_are_printed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = pl.DataFrame({"id": ["s1", "s2"], "image": [["a"], ["b", "c"]], "view": [["PA"], []]})
    if name == "lists_as_text":
        table = table.with_columns(pl.col("image", "view").list.join(";"))
    table.write_parquet("t.parquet")
    with pytest.raises(pl.exceptions.ShapeError):
        exec(mending_line(name, "t.parquet", columns=["image", "view"]), {})
    printed = capsys.readouterr().out
    assert "lists of different lengths" in printed and "s2" in printed and "s1" not in printed


@pytest.mark.parametrize(
    ("name", "form", "encoding"),
    [
        ("t.csv", CsvForm("semicolon"), "utf-8"),
        ("t.csv", CsvForm("pipe", "cp1252"), "cp1252"),
        ("t.csv", CsvForm("comma", "utf-16-le"), "utf-16-le"),
        ("t.tsv", CsvForm(), "utf-8"),
    ],
)
def test_a_csv_file_is_read_as_its_table(
    name: str, form: CsvForm, encoding: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    sign = {"semicolon": ";", "pipe": "|", "comma": ","}.get(form.delimiter or "", "\t")
    path.write_text(f'id{sign}text\n007{sign}"größer{sign}\nx"\n', encoding=encoding)
    table = open_table(path, form)
    frame = eval(table.reading, {"pl": pl})
    assert frame.columns == table.columns and frame.rows() == table.rows


def test_a_pattern_for_several_files_is_read_as_one_table(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"t-{name}.csv").write_text(f"id\n0{name}\n")
        pl.DataFrame({"id": [name]}).write_parquet(tmp_path / f"t-{name}.parquet")
    for suffix, ids in ((".csv", ["0a", "0b"]), (".parquet", ["a", "b"])):
        pattern = tmp_path / f"t-*{suffix}"
        assert eval(reading(pattern), {"pl": pl})["id"].to_list() == ids
        assert mended_path(pattern) == str(tmp_path / "t-.mended.parquet")
    assert mended_path("d/*.csv.gz") == "d/table.mended.parquet"
    assert mended_path("d/t.mended.parquet") == "d/t.mended-2.parquet"
    assert mended_path("d/t.mended-2.parquet") == "d/t.mended-3.parquet"


def test_calls_that_read_other_files() -> None:
    assert reading("t.csv", ";", "utf-16-le", skip_lines=1) == READ
    assert (
        reading("t.xlsx", sheet="A")
        == "pl.read_excel('t.xlsx', engine='openpyxl', infer_schema_length=0, sheet_name='A')"
    )
