"""CSV files, read strictly."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pacer.core.errors import DataError
from pacer.data.tables import LARGEST, CsvForm, open_table
from tests.support.cases import cases


@cases(__file__)
def test_a_file(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    content = ("\ufeff" * case.get("mark", False) + case["content"]).encode(case.get("encoding", "utf-8"))
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


def test_long_fields(tmp_path: Path) -> None:
    csv.field_size_limit(LARGEST)  # of the whole process: report_files, once called in it, lifts the limit
    (tmp_path / "t.csv").write_text(f'a\n"{"x" * 200_000}"\n')
    assert open_table(tmp_path / "t.csv").rows == [("x" * 200_000,)]
    (tmp_path / "t.csv").write_text(f'a\n"{"x" * (LARGEST + 1)}"\n')
    with pytest.raises(DataError, match="line 2: field larger"):
        open_table(tmp_path / "t.csv")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv does not exist"):
        open_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv cannot be read"):
        open_table(tmp_path / "folder.csv")
    sound = gzip.compress(b"a,b\n1,2\n" * 2000)
    for content in (sound[:-9], sound[: len(sound) // 2], sound[:20] + b"\xff" * 9 + sound[29:]):
        (tmp_path / "t.csv.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"t\.csv\.gz cannot be read"):
            open_table(tmp_path / "t.csv.gz")


def test_a_decimal_number_that_tells_no_neighbours_apart_keeps_its_exponent(tmp_path: Path) -> None:
    rows = [{"id": 2.0**53}, {"id": 1e17}, {"id": 101.0}, {"id": 10**17}]
    (tmp_path / "ids.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = open_table(tmp_path / "ids.jsonl")
    assert table.frame(["id"])["id"].to_list() == ["9.007199e+15", "1.000000e+17", "101", str(10**17)]
    with pytest.raises(DataError, match=r"line 1, id: 9\.007199e\+15 is an id that"):
        table.check_ids(["id"])
