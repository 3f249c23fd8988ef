"""One table in three kinds of file: the same columns, rows and texts, and one form of error."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.data.tables import open_table

ROWS = [{"Id": "007", "text": 'a "b"\nc'}, {"Id": "8", "text": "ü"}]


def written(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif name.endswith(".parquet"):
        pl.DataFrame(ROWS).write_parquet(path)
    else:
        pl.DataFrame(ROWS).write_csv(path)
    return path


@pytest.mark.parametrize(
    ("name", "places"),
    [("t.csv", ["line 2", "line 4"]), ("t.jsonl", ["line 1", "line 2"]), ("t.parquet", ["row 1", "row 2"])],
)
def test_kinds_agree(tmp_path: Path, name: str, places: list[str]) -> None:
    table = open_table(written(tmp_path, name))
    assert table.columns == ["Id", "text"]
    assert table.only("id") == "Id" and table.only("none") is None
    assert table.places == places
    assert table.values("text") == [row["text"] for row in ROWS]
    assert table.frame(["text", "Id"]).rows() == [(row["text"], row["Id"]) for row in ROWS]


def test_numbers_of_json_lines_as_text(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"id": 7.0, "time": 850.0}\n\n{"id": 8}\n')
    table = open_table(path)
    assert table.columns == ["id", "time"]
    assert table.frame(["id", "time"], decimals=("time",)).rows() == [("7", "850.0"), ("8", None)]


def test_a_value_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"id": "a"}\n{"id": ["secret"]}\n')
    with pytest.raises(DataError, match=r"t\.jsonl, line 2, id: expected text or a number, got a list of 1$"):
        open_table(path).frame(["id"])
