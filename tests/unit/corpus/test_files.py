"""Files of a corpus, read strictly: CSV, annotations, and dates in them."""

import csv
import gzip
import json
from datetime import date, time
from pathlib import Path
from typing import Any

import pytest

from pacer.core.errors import DataError
from pacer.corpus.readers.files import read_annotations
from pacer.tables.delimited import LARGEST, CsvForm
from pacer.tables.files import open_table
from pacer.tables.values import parse_instant, parse_time
from tests.support.cases import cases, listed_cases


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


LONG = '{"train": [' + "[" * 100_000, '{"train": [1' + "0" * 5000 + "]}"
DAMAGED = [*map(str.encode, LONG), *damaged(json.dumps({"train": list(range(3000))}))]


@pytest.mark.parametrize(
    ("text", "message"),
    listed_cases(__file__, "malformed") + [(one, "cannot be read as JSON") for one in DAMAGED],
)
def test_malformed_annotations(tmp_path, text: str | bytes, message: str) -> None:
    path = tmp_path / ("a.json.gz" if text in DAMAGED[2:] else "a.json")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError) as error:
        read_annotations(path)
    assert message in str(error.value) and str(path) in str(error.value)
    for missing, reason in (
        (tmp_path / "none.json", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(DataError, match=rf"cannot be read as JSON: {reason}"):
            read_annotations(missing)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "A.JSON.GZ"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_mark_and_gzip(tmp_path, name, mark) -> None:
    content = (mark + '{"train": [{"id": "\u00e9\ufeff"}], "test": [2]}').encode()
    (tmp_path / name).write_bytes(
        gzip.compress(content) if name.lower().endswith(".gz") else content
    )
    assert read_annotations(tmp_path / name) == {"train": [{"id": "\u00e9\ufeff"}], "test": [2]}


#: Lines of kind (day, time), text and value; a value of - is refused.
CASES = [
    line.split("\t")
    for line in Path(__file__).with_name("instants.tsv").read_text("utf-8").splitlines()
    if line
]


@pytest.mark.parametrize(
    ("kind", "text", "value"), [case for case in CASES if not case[0].startswith("#")]
)
def test_what_is_written_means_one_thing_or_is_refused(kind: str, text: str, value: str) -> None:
    if kind == "time":
        assert parse_time(text) == (None if value == "-" else time.fromisoformat(value))
        return
    day, _, clock = value.partition(" ")
    expected = (
        None
        if value == "-"
        else (date.fromisoformat(day), time.fromisoformat(clock) if clock else None)
    )
    assert (instant := parse_instant(text)) == expected or (instant and instant[:2] == expected)
