"""The reader of a table of one's own studies."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.data.account import Account
from pacer.data.readers.image_rows import TEXTS
from pacer.data.readers.table import read
from pacer.data.source import Source
from pacer.data.studies import seeded_split
from tests.support.corpus import BASE, read_rows

SECRET = "Zephyrine opacity"  # a report text that no message may hold
Rows = list[dict[str, Any]]


def config_of(columns: dict[str, str] | None = None, **more: Any) -> Corpus:
    table = {"file": "t", "columns": columns or {}, "delimiter": more.pop("delimiter", None)}
    table["encoding"] = more.pop("encoding", "utf-8")
    return Corpus.model_validate(BASE | {"source": "files", "format": "table", "root": ".", "table": table} | more)


def row(subject: Any = "p1", study: Any = "s1", view: Any = "PA", image: Any = None, **more: Any) -> dict[str, Any]:
    fields = {"subject": subject, "study": study, "view": view, "image": image or f"{study}_{view}.jpg"}
    return fields | {"findings": f"{SECRET} {study}."} | more


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """The rows in the layout that the file name tells."""
    names = list(dict.fromkeys(name for entry in rows for name in entry))
    name = path.name
    if ".jsonl" in name.lower():
        lines = "".join(json.dumps(entry) + "\n" for entry in rows).encode()
        path.write_bytes(gzip.compress(lines) if name.lower().endswith(".gz") else lines)
        return path
    frame = pl.DataFrame([{n: entry.get(n) for n in names} for entry in rows], infer_schema_length=None)
    if name.endswith(".parquet"):
        frame.write_parquet(path)
    else:
        content = frame.write_csv(separator="\t" if ".tsv" in name else ",").encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def read_file(path: Path, config: Corpus | None = None) -> tuple[Rows, Account]:
    found, notes = read_rows(read, Source(path.parent, {"file": path}, None), config or config_of())
    assert sum(entry["rows"] for entry in found) == notes.read["table"]
    assert SECRET not in repr([entry for entry in found if "kind" in entry])
    return found, notes


@pytest.fixture
def reading(tmp_path: Path):
    def read_table(rows: Sequence[dict[str, Any]], name: str = "t.parquet", **settings: Any) -> tuple[Rows, Account]:
        found, notes = read_file(write(tmp_path / name, rows), config_of(**settings))
        assert notes.read["table"] == len(rows)
        return found, notes

    return read_table


def exams(rows: Rows) -> dict[str, dict[str, Any]]:
    found = [entry for entry in rows if "kind" not in entry]
    assert len({entry["id"] for entry in found}) == len(found)
    return {entry["id"]: entry for entry in found}


def others(rows: Rows) -> list[tuple]:
    """What is no examination: place, field (of a problem), reason and rows."""
    return [
        (entry["row"], *filter(None, [entry["field"]]), entry["reason"], entry["rows"])
        for entry in rows
        if "kind" in entry
    ]


def shown(study: dict[str, Any]) -> tuple:
    names = ("id", "study_id", "subject_id", "split", "contexts", "view", "frontal", "lateral", *TEXTS, "rows")
    return tuple(study.get(name) for name in names)


def prior_of(study: dict[str, Any]) -> tuple:
    """Both texts, the study, and how it was chosen."""
    names = ("prior_findings", "prior_impression", "prior_study_id", "gap_days", "rule", "tied", "passed_over")
    return tuple(study.get(name) for name in names)


# Files ---------------------------------------------------------------------------------------------------------------

FIELDS = {"date": "2180-05-06", "time": "08:50", "impression": "I.", "indication": "Cough.", "history": "H."}
LATER = {
    "date": "2180-05-07",
    "time": "09:50",
    "findings": 'One\n"two", three.',
    "impression": None,
    "indication": None,
}
FULL = [
    row("007", "050", **FIELDS, split="dev"),
    row("007", "050", "LATERAL", **FIELDS, split="dev"),
    row("007", "049", "AP", **LATER, history=" ", split="dev"),
]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz", "t.parquet", "T.JSONL.GZ"])
def test_all_kinds_of_file_give_the_same(reading, name: str) -> None:
    first, second = reading(FULL, name)[0]
    assert [study["file"].endswith(name) for study in (first, second)] == [True, True]
    unit, below = "row" if name.endswith("parquet") else "line", "sv" in name  # the header
    assert (first["row"], second["row"]) == (f"{unit} {1 + below}", f"{unit} {3 + below}")
    images, texts = ("PA", "050_PA.jpg", "050_LATERAL.jpg"), (f"{SECRET} 050.", "I.", "Cough.", "H.")
    assert shown(first) == ("050", "050", "007", "val", ["sn", "mn"], *images, *texts, 2)
    images, texts = ("AP", "049_AP.jpg", None), ('One\n"two", three.', None, None, None)
    assert shown(second) == ("049", "049", "007", "val", ["sn", "sw"], *images, *texts, 1)
    assert prior_of(second) == (f"{SECRET} 050.", "I.", "050", 25 / 24, "date and time", False, 0)


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
    rows = [row(7.0, study, findings=float("nan"), impression=text) for study, text in ((2, "A"), (1, "B"))]
    columns = {"date": pl.Series(dates)} | ({"time": pl.Series(times)} if times else {})
    pl.DataFrame(rows).with_columns(**columns).write_parquet(tmp_path / "t.parquet")
    found = exams(read_file(tmp_path / "t.parquet")[0])
    assert prior_of(found["1"]) == (None, "A", "2", 1.5, "date and time", False, 0)
    assert found["1"]["subject_id"] == "7" and "findings" not in found["1"]


def test_numbers_in_jsonl(reading) -> None:
    found = exams(reading([row(7.0, 12, date=21800506), row(7, 13.0, date="2180-05-07", time="0.0")], "t.jsonl")[0])
    assert found["13"]["prior_study_id"] == "12" and {exam["subject_id"] for exam in found.values()} == {"7"}


GOOD = b"subject,study,view,image,findings\n"
LINE = b'{"subject": "p", "study": "s", "view": "PA", "image": "i", "findings": "f"}\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("t.csv", b"", "Columns of the table: no columns"),
        ("t.parquet", b"PAR1" + b"x" * 99, "cannot be read"),
        ("t.jsonl", b'{"subject": "' + SECRET.encode(), "line 1 is not valid JSON"),
        ("t.jsonl", b'{}\n["' + SECRET.encode() + b'"]\n', "line 2: expected an object, got a list"),
        ("t.jsonl", LINE.replace(b'"p"', b"true"), "line 1, subject: expected text or a number"),
        ("t.jsonl", LINE.replace(b'"f"', b'"\\ud800"'), "line 1, findings: half of a surrogate pair"),
        ("t.jsonl", b'{"subject": "\xe9"}\n', "not UTF-8"),
    ],
)
def test_broken_files(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_file(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value) and expected in str(caught.value)
    assert SECRET not in str(caught.value)


def test_nested_columns(tmp_path: Path) -> None:
    pl.DataFrame([row(findings=["a", "b"])]).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"row 1, findings: expected text or a number, got a list of 2"):
        read_file(tmp_path / "t.parquet")


@pytest.mark.parametrize("given", [{}, {"split": None}])
def test_split_by_subject_where_the_table_has_none(reading, given: dict) -> None:
    rows = [row(f"p{n % 40}", f"s{n}", **given) for n in range(80)]
    found, _ = reading(rows, split={"val": 0.3, "test": 0.3}, seed=3)
    for exam in exams(found).values():
        assert exam["split"] == seeded_split(exam["subject_id"], 3, 0.3, 0.3)
    assert {exam["split"] for exam in exams(found).values()} == {"train", "val", "test"}
