"""The reader of a table of one's own studies."""

from __future__ import annotations

import gzip
import json
from collections import Counter
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


def test_instants_that_are_all_midnight_are_days(reading) -> None:
    days = [datetime(2180, 5, 6), datetime(2180, 5, 6)]
    _, notes = reading([row(study=f"s{n}", date=day) for n, day in enumerate(days)])
    assert notes.notes.get("priors", {}) == {"table": {"same day, order unknown": 2}}


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


def test_a_table_of_a_header_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(GOOD)
    assert read_file(tmp_path / "t.csv")[0] == []


@pytest.mark.parametrize(
    ("rows", "findings"),
    [
        (b'p,s,PA,i,5" line\np,t,PA,i,f\n', ['5" line', "f"]),
        (b"p,s,PA,i,f\rp,t,PA,i,g\r", ["f", "g"]),
        (b"p,s,PA,i,f\r\r\np,t,PA,i,g\n", ["f", "g"]),
    ],
)
def test_stray_quotes_and_mixed_line_ends(tmp_path: Path, rows: bytes, findings: list[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(GOOD + rows)
    assert [exam["findings"] for exam in exams(read_file(path)[0]).values()] == findings


# Columns -------------------------------------------------------------------------------------------------------------


def test_columns_are_mapped(reading) -> None:
    content = {"subject_id": "p", "study": "s", "path": "i", "view": "PA", "history": "F", "subject": "x", "Age": 3}
    found, notes = reading([content], columns={"subject": "subject_id", "image": "path", "findings": "history"})
    (exam,) = found
    assert (exam["subject_id"], exam["frontal"], exam["findings"], exam.get("history")) == ("p", "i", "F", None)
    assert notes.notes.get("unknown_fields", {}) == {"table": {"Age": 1, "subject": 1}}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"subjct": "subject"},
            "unknown key subjct, not one of subject, study, view, image, findings, "
            "impression, whole_report, date, time, order, indication, history, split",
        ),
        ({"study": "studie"}, "no column studie for study"),
        ({"findings": "image", "image": "image"}, "column image is there, or is named, more than once"),
        ({"subject": "a", "date": "b"}, "no column a for subject; no column b for date"),
        *((name, f"no column {name} for {name}") for name in ("subject", "study", "view", "image")),
        ("findings", "no column for findings or impression"),
    ],
)
def test_columns_that_do_not_fit(reading, columns: dict[str, str] | str, expected: str) -> None:
    """Columns by other names, or a table without one of them."""
    content = {name: value for name, value in row().items() if name != columns}
    with pytest.raises(DataError) as caught:
        reading([content], columns={} if isinstance(columns, str) else columns)
    assert expected in str(caught.value)
    assert f"Columns of the table: {', '.join(content)}; map yours" in str(caught.value)


# Images --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("views", "frontal", "lateral", "rest"),
    [
        (["PA"], 0, None, []),
        (["AP", "PA"], 1, None, [(0, "a further frontal image of the study", 1)]),
        (["Frontal", "AP"], 1, None, [(0, "a further frontal image of the study", 1)]),
        (["LL", "Frontal"], 1, 0, []),
        (
            ["AP", "AP", "LATERAL", "LL"],
            0,
            2,
            [(1, "a further frontal image of the study", 1), (3, "a further lateral image of the study", 1)],
        ),
        (["PA", "oblique", None, "?"], 0, None, [(number, "unknown view", 1) for number in (1, 2, 3)]),
        (["LL", "LL"], None, None, [(0, "no frontal image", 2)]),
        (["?", "LL"], None, None, [(0, "unknown view", 1), (1, "no frontal image", 1)]),
    ],
)
def test_choice_of_images(reading, views: list, frontal: int | None, lateral: int | None, rest: list[tuple]) -> None:
    rows = [row(view=view, image=f"{number}.jpg") for number, view in enumerate(views)]
    found, notes = reading(rows)
    assert others(found) == [(f"row {place + 1}", *about) for place, *about in rest]
    if frontal is None:
        assert not exams(found)
    else:
        exam = exams(found)["s1"]
        assert (exam["row"], exam["frontal"]) == (f"row {frontal + 1}", f"{frontal}.jpg")
        assert exam.get("lateral") == (None if lateral is None else f"{lateral}.jpg")
        assert exam["view"] == {"LL": "other", "Frontal": "other"}.get(views[frontal], views[frontal])
        assert exam["contexts"] == (["sn"] if lateral is None else ["sn", "mn"])
        assert exam["rows"] == 1 + (lateral is not None)
    unknown = Counter("(none)" if view is None else view for view in views if view in ("oblique", None, "?"))
    assert notes.notes.get("unknown_views", {}).get("table", {}) == dict(unknown)


# Studies -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("impression", ("A.", "B.")),
        ("indication", ("A.", "B.")),
        ("history", ("A.", "B.")),
        ("split", ("train", "val")),
        ("date", ("2180-05-06", "2180-05-07")),
        ("date", ("2180-05-06T08:00", "2180-05-08T09:00")),
    ],
)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_rows_of_a_study_must_agree(reading, name: str, values: tuple[str, str], order: tuple[int, int]) -> None:
    rows = [row(image=f"{n}", **{name: values[k]}) for n, k in enumerate(order)]
    rows += [row(image="2", **{name: None}), row(study="s2", split="test" if name == "split" else None)]
    found, _ = reading(rows)
    assert others(found) == [("row 1", name, "the study has different values of it; its rows must agree", 3)]
    assert list(exams(found)) == ["s2"]


def test_the_same_value_in_two_forms_is_no_conflict(reading) -> None:
    found, _ = reading(
        [
            row(date="2180-05-06", time="08:50:27", split="dev"),
            row(view="LL", date="21800506", time="85027.0", split=" Validation "),
        ]
    )
    assert exams(found)["s1"]["split"] == "val"


def test_gaps_are_filled_from_the_other_rows(reading) -> None:
    fields = {"date": "2180-05-06", "impression": "I.", "indication": "N.", "history": "H.", "split": "test"}
    rows = [row(view="LL", **dict.fromkeys(fields)), row(findings=None, **fields)]
    found, _ = reading([*rows, row(study="s2", date="2180-05-08", split="test")])
    exam = exams(found)["s1"]
    texts = {"findings": f"{SECRET} s1.", "impression": "I.", "indication": "N.", "history": "H."}
    assert exam.items() >= (texts | {"split": "test"}).items()
    assert prior_of(exams(found)["s2"]) == (f"{SECRET} s1.", "I.", "s1", 2.0, "date", False, 0)


@pytest.mark.parametrize("given", [{}, {"split": None}])
def test_split_by_subject_where_the_table_has_none(reading, given: dict) -> None:
    rows = [row(f"p{n % 40}", f"s{n}", **given) for n in range(80)]
    found, _ = reading(rows, split={"val": 0.3, "test": 0.3}, seed=3)
    for exam in exams(found).values():
        assert exam["split"] == seeded_split(exam["subject_id"], 3, 0.3, 0.3)
    assert {exam["split"] for exam in exams(found).values()} == {"train", "val", "test"}


# Priors --------------------------------------------------------------------------------------------------------------


def test_a_prior_needs_a_report_not_images(reading) -> None:
    rows = [
        row(study="a", date="2180-01-01"),
        row(study="b", date="2180-01-02", view="LL"),
        row(study="c", date="2180-01-03", view="?"),
        row(study="d", date="2180-01-04", findings=None),
        row(study="e", date="2180-01-05"),
    ]
    found, _ = reading(rows)
    assert prior_of(exams(found)["e"]) == (f"{SECRET} c.", None, "c", 2.0, "date", False, 1)


def test_a_study_that_is_a_problem_is_passed_over(reading) -> None:
    rows = [
        row(study="a", date="2180-01-01"),
        row(study="b", date="2180-01-02", findings="A."),
        row(study="b", view="AP", findings="B."),
        row(study="c", date="2180-01-03"),
    ]
    study = exams(reading(rows)[0])["c"]
    assert (study["prior_study_id"], study["passed_over"]) == ("a", 1)


def test_what_is_counted_about_priors(reading) -> None:
    rows = [
        row(study="a"),
        row(study="b", date="2180-01-02", time="08:00"),
        row(study="c", date="2180-01-02"),
        row("p2", "d", date="2180-01-01", findings=None),
        row("p2", "e", date="2180-01-02"),
    ]
    _, notes = reading(rows)
    assert notes.notes["priors"] == {"table": {"same day, order unknown": 2, "undated": 1}}
