"""The reader of a table of one's own studies: kinds of files, typed columns, pictures and lists,
and damage."""

import gzip
import json
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.corpus.account import Notes
from pacer.corpus.readers.table import read
from pacer.corpus.records import seeded_split
from pacer.corpus.source import Source
from tests.support.cases import cases, listed_cases
from tests.support.corpus import BASE, read_rows

SECRET = "Zephyrine opacity"  # a report text that no message may hold


def row(subject: Any = "p1", study: Any = "s1", view: Any = "PA", **more: Any) -> dict[str, Any]:
    fields = {"subject": subject, "study": study, "view": view, "image": f"{study}_{view}.jpg"}
    return fields | {"findings": f"{SECRET} {study}."} | more


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows in the layout that the file name tells."""
    frame, name = pl.DataFrame(rows, infer_schema_length=None), path.name.lower()
    if name.endswith(".parquet"):
        frame.write_parquet(path)
        return path
    lines = "".join(json.dumps(entry) + "\n" for entry in rows)
    text = lines if ".jsonl" in name else frame.write_csv(separator="\t" if ".tsv" in name else ",")
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def rows_of(path: Path, **settings: Any) -> tuple[list[dict[str, Any]], Notes]:
    table = {"file": "t", "columns": {}, "sheet": settings.pop("sheet", None)}
    files = {"source": "files", "format": "table", "root": ".", "table": table}
    config = Corpus.model_validate(BASE | files | settings)
    found, notes = read_rows(read, Source(path.parent, {"file": path}, None), config)
    assert sum(entry["rows"] for entry in found) == notes.read["table"] and isinstance(notes, Notes)
    return found, notes


def studies_of(path: Path, **settings: Any) -> dict[str, dict[str, Any]]:
    """The studies of a table by id, each with its values that are not null."""
    return {entry["id"]: entry for entry in rows_of(path, **settings)[0] if "kind" not in entry}


@pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz", "t.parquet", "T.JSONL.GZ"])
def test_all_kinds_of_file_give_the_same(tmp_path: Path, name: str) -> None:
    shared = {
        "impression": "I.",
        "indication": "Cough.",
        "history": "H.",
        "date": "2180-05-06",
        "time": "08:50",
    }
    last = {
        "impression": None,
        "indication": None,
        "history": " ",
        "date": "2180-05-07",
        "time": "09:50",
    }
    rows = [row("007", "050", view, split="dev", **shared) for view in ("PA", "LATERAL")]
    rows.append(row("007", "049", "AP", split="dev", **last) | {"findings": 'One\n"two", three.'})
    path = write(tmp_path / name, rows)
    studies = studies_of(path)
    unit, below = "row" if name.endswith("parquet") else "line", "sv" in name  # the header
    place, ids = {"file": str(path), "split": "val"}, {"subject_id": "007", "day": date(2180, 5, 6)}
    shown = {name: value for name, value in shared.items() if name not in ("date", "time")}
    assert studies["050"] == place | ids | shown | {
        "id": "050",
        "row": f"{unit} {1 + below}",
        "rows": 2,
        "study_id": "050",
        "contexts": ["sn", "mn"],
        "view": "PA",
        "frontal": "050_PA.jpg",
        "lateral": "050_LATERAL.jpg",
        "findings": f"{SECRET} 050.",
    }
    assert studies["049"] == place | ids | {"day": date(2180, 5, 7)} | {
        "id": "049",
        "row": f"{unit} {3 + below}",
        "rows": 1,
        "study_id": "049",
        "contexts": ["sn", "sw"],
        "view": "AP",
        "frontal": "049_AP.jpg",
        "findings": 'One\n"two", three.',
        "prior_findings": f"{SECRET} 050.",
        "prior_impression": "I.",
        "prior_study_id": "050",
        "gap_days": 25 / 24,
    }


@pytest.mark.parametrize(
    ("dates", "times"),
    [
        ([date(2180, 5, 6), date(2180, 5, 7)], [time(8), time(20)]),
        ([datetime(2180, 5, 6, 8), datetime(2180, 5, 7, 20)], None),
        ([datetime(2180, 5, 6), datetime(2180, 5, 7)], [time(8), time(20)]),
        ([datetime(2180, 5, 6, 8, tzinfo=UTC), datetime(2180, 5, 7, 20, tzinfo=UTC)], None),
        ([21800506, 21800507], [80000.0, 200000.0]),
        ([21800506.0, 21800507.0], ["080000", "20:00"]),
        (["2180-05-06T08:00", "2180-05-07 20:00:00"], None),
    ],
)
def test_typed_dates_and_times(tmp_path: Path, dates: list, times: list | None) -> None:
    rows = [
        row(7.0, study, findings=float("nan"), impression=text)
        for study, text in ((2, "A"), (1, "B"))
    ]
    columns = {"date": pl.Series(dates)} | ({"time": pl.Series(times)} if times else {})
    pl.DataFrame(rows).with_columns(**columns).write_parquet(tmp_path / "t.parquet")
    study = studies_of(tmp_path / "t.parquet")["1"]
    assert (study["prior_impression"], study["gap_days"]) == ("A", 1.5)
    assert study["subject_id"] == "7" and not {"findings", "prior_findings"} & study.keys()


def test_times_with_a_zone_without_a_name_are_refused(tmp_path: Path) -> None:
    """polars panics at them."""
    dates = pa.array([datetime(2180, 5, 6)], pa.timestamp("us", "+05:30"))
    pq.write_table(pa.table({"date": dates}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet has a column that polars cannot .* in UTC"):
        studies_of(tmp_path / "t.parquet")


def test_numbers_in_jsonl(tmp_path: Path) -> None:
    rows = [row(7.0, 12, date=21800506), row(7, 13.0, date="2180-05-07", time="0.0")]
    studies = studies_of(write(tmp_path / "t.jsonl", rows))
    assert studies["13"]["prior_study_id"] == "12" and {
        study["subject_id"] for study in studies.values()
    } == {"7"}


@pytest.mark.parametrize(("name", "content", "expected"), listed_cases(__file__, "broken"))
def test_broken_files(tmp_path: Path, name: str, content: str, expected: str) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError) as caught:
        studies_of(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value) and expected in str(caught.value)
    assert SECRET not in str(caught.value)


def test_text_that_is_written_as_bytes_is_read_as_text(tmp_path: Path) -> None:
    """Impala and old versions of Hive write Parquet so; the bytes of pictures stay bytes."""
    rows = [row("p", "s", findings="Größe normal."), row("q", "t", findings=None)]
    table = pl.DataFrame(rows).with_columns(pl.col(pl.String).cast(pl.Binary))
    table.write_parquet(tmp_path / "t.parquet")
    found, notes = rows_of(tmp_path / "t.parquet")
    studies = {entry["id"]: entry for entry in found}
    assert (studies["s"]["subject_id"], studies["s"]["findings"]) == ("p", "Größe normal.")
    forms = notes.topics["table_form"]["table"]
    assert forms["column findings: bytes, which are read as UTF-8"] == 1


def test_the_script_for_lists_in_json_lines_reads_json_lines(tmp_path: Path) -> None:
    lines = [row("p", "s", image=["1.png", "2.png"], view=["PA", "LL"])]
    path = write(tmp_path / "t.jsonl", lines)
    with pytest.raises(DataError, match="contains images or lists; run this script") as refused:
        studies_of(path)
    exec(str(refused.value).partition("\n")[2], {})
    study = studies_of(tmp_path / "t.files.parquet")["s"]
    assert (study["frontal"], study["lateral"]) == ("1.png", "2.png")


@pytest.mark.parametrize(
    ("pictures", "views", "lines"),
    [
        ([{"bytes": b"one", "path": "1.png"}, {"bytes": b"two", "path": None}], ["PA", "AP"], 2),
        ([b"one", b"two"], ["PA", "AP"], 2),
        ([None, {"bytes": b"two", "path": "2.png"}], ["PA", "AP"], 2),
        (
            [[{"bytes": b"one"}], [{"bytes": b"two"}, {"bytes": b"three"}]],
            [["PA"], ["AP", "LL"]],
            3,
        ),
        ([[{"bytes": b"one"}], [{"bytes": b"two"}]], ["PA", "AP"], 2),
        ([["1.png"], ["2.png", "3.png"]], [["PA"], ["AP", "LL"]], 3),
    ],
)
def test_pictures_and_lists_come_with_the_python_that_writes_them(
    tmp_path: Path, pictures: list, views: list, lines: int
) -> None:
    """After it the table names files with the pictures' bytes, one to a row."""
    table = {
        "subject": ["p", "q"],
        "study": ["s", "t"],
        "view": views,
        "image": pictures,
        "findings": ["f", "g"],
    }
    pl.DataFrame(table).write_parquet(tmp_path / "train-0.parquet")
    with pytest.raises(DataError, match="contains images or lists; run this script") as refused:
        studies_of(tmp_path / "train-0.parquet")
    exec(str(refused.value).partition("\n")[2], {})
    written = pl.read_parquet(tmp_path / "train-0.files.parquet")
    assert written.height == lines and set(studies_of(tmp_path / "train-0.files.parquet")) == {
        "s",
        "t",
    }
    if pictures[0] is not None and pictures[0] != ["1.png"]:
        assert (tmp_path / written["image"][0]).read_bytes() == b"one"


@cases(__file__, "workbooks")
def test_a_workbook(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra `excel`")
    book, path = openpyxl.Workbook(), tmp_path / "t.xlsx"
    for title, cells in {"Sheet": case["cells"], **case.get("sheets", {})}.items():
        sheet = book[title] if title in book else book.create_sheet(title)
        for line in cells:
            sheet.append(line)
    for place, form in case.get("formats", {}).items():
        book["Sheet"][place].number_format = form
    for area in case.get("merged", []):
        book["Sheet"].merge_cells(area)
    book.save(path)
    if "error" in case:
        with pytest.raises(DataError, match=case["error"]):
            rows_of(path, sheet=case.get("sheet"))
        return
    found, notes = rows_of(path, sheet=case.get("sheet"))
    studies = {entry["id"]: entry for entry in found if "kind" not in entry}
    for study, fields in case["studies"].items():
        assert {name: studies[study].get(name) for name in fields} == fields
    assert [entry["kind"] for entry in found if "kind" in entry] == list(
        filter(None, case.get("kinds", []))
    )
    unread = notes.topics.get("unknown_fields", {}).get("table", {})
    assert unread == case.get("unread", {})
    assert notes.topics.get("table_form", {}).get("table", {}) == case.get("form", {})


@pytest.mark.parametrize("given", [{}, {"split": None}])
def test_split_by_subject_where_the_table_has_none(tmp_path: Path, given: dict) -> None:
    path = write(tmp_path / "t.parquet", [row(f"p{n % 40}", f"s{n}", **given) for n in range(80)])
    studies = studies_of(path, split={"val": 0.3, "test": 0.3}, seed=3)
    for study in studies.values():
        assert study["split"] == seeded_split(study["subject_id"], 3, 0.3, 0.3)
    assert {study["split"] for study in studies.values()} == {"train", "val", "test"}
