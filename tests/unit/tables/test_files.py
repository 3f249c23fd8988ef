"""Files of tables, read strictly."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pacer.core.errors import DataError
from pacer.tables.delimited import LARGEST, CsvForm
from pacer.tables.files import open_table
from tests.support.cases import cases


@cases(__file__, "files", "damage")
def test_a_csv_file(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    content = ("\ufeff" * case.get("mark", False) + case["content"]).encode(
        case.get("encoding", "utf-8")
    )
    path = tmp_path / case.get("name", "t.csv")
    path.write_bytes(gzip.compress(content) if path.name.lower().endswith("csv.gz") else content)
    form = CsvForm(**case.get("form", {}))
    if kind == "damage":
        with pytest.raises(DataError, match=case["message"]) as caught:
            open_table(path, form)
        assert str(path) in str(caught.value) and "Zephyrine" not in str(caught.value)
        return
    table = open_table(path, form._replace(encoding=case.get("encoding", "utf-8")))
    assert [table.columns, *map(list, table.rows)] == case["rows"]
    assert table.places == case.get("places", table.places)


@cases(__file__, "quoting")
def test_another_kind_of_quoting_is_refused_with_a_line_that_mends_it(
    kind: str, case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(case.get("name", "t.csv"))
    encoding = case.get("encoding", "utf-8")
    path.write_text(case["content"], encoding=encoding, newline="")
    with pytest.raises(DataError, match=case["message"] or "the number 101,0") as caught:
        table = open_table(path, CsvForm(**case.get("form", {}), encoding=encoding))
        table.ids(case["column"])
    sentence, _, line = str(caught.value).partition("\n")
    assert "Zephyrine" not in str(caught.value) and sentence.endswith(":")
    if case["rows"]:
        exec(line, {})
        mended = open_table("t.mended.parquet")
        assert [mended.columns, *map(list, mended.rows)] == case["rows"]


def test_long_fields(tmp_path: Path) -> None:
    csv.field_size_limit(
        LARGEST
    )  # of the whole process: report_files, once called in it, lifts the limit
    (tmp_path / "t.csv").write_text(f'a\n"{"x" * 200_000}"\n')
    assert open_table(tmp_path / "t.csv").rows == [("x" * 200_000,)]
    (tmp_path / "t.csv").write_text(f'a\n"{"x" * (LARGEST + 1)}"\n')
    with pytest.raises(DataError, match="line 2: field larger"):
        open_table(tmp_path / "t.csv")


def damaged(content: str) -> list[bytes]:
    """A compressed file that lacks its length, its checksum too, or half of it, or that has
    changed."""
    sound = gzip.compress(content.encode())
    return [sound[:-4], sound[:-9], sound[: len(sound) // 2], sound[:20] + b"\xff" * 9 + sound[29:]]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv does not exist"):
        open_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv cannot be read"):
        open_table(tmp_path / "folder.csv")
    for content in damaged("a,b\n1,2\n" * 2000):
        (tmp_path / "t.csv.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"t\.csv\.gz cannot be read"):
            open_table(tmp_path / "t.csv.gz")


def test_a_decimal_number_that_tells_no_neighbours_apart_keeps_its_exponent(tmp_path: Path) -> None:
    rows = [{"id": 2.0**53}, {"id": 1e17}, {"id": 101.0}, {"id": 10**17}]
    (tmp_path / "ids.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = open_table(tmp_path / "ids.jsonl")
    assert table.frame(["id"])["id"].to_list() == [
        "9.007199e+15",
        "1.000000e+17",
        "101",
        str(10**17),
    ]
    with pytest.raises(DataError, match=r"line 1, id: 9\.007199e\+15 is an id that"):
        table.check_ids(["id"])
