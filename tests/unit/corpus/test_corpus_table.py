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
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.corpus.account import Notes
from pacer.corpus.readers.table import read
from pacer.corpus.records import seeded_split
from pacer.corpus.source import Source
from pacer.tables.mending import mended_path
from tests.support.cases import cases, listed_cases
from tests.support.corpus import BASE, read_rows

SECRET = "Zephyrine opacity"  # a report text that no message may hold


def row(subject: Any = "p1", study: Any = "s1", view: Any = "PA", **more: Any) -> dict[str, Any]:
    fields = {"subject": subject, "study": study, "view": view, "image": f"{study}_{view}.jpg"}
    return fields | {"findings": f"{SECRET} {study}."} | more


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows in the layout that the file name tells, and the images that they name."""
    for image in (entry["image"] for entry in rows):
        if isinstance(image, str) and image.endswith(".jpg"):
            Image.new("L", (16, 16)).save(path.parent / image)
    frame, name = pl.DataFrame(rows, infer_schema_length=None), path.name.lower()
    if name.endswith(".parquet"):
        frame.write_parquet(path)
        return path
    lines = "".join(json.dumps(entry) + "\n" for entry in rows)
    text = lines if ".jsonl" in name else frame.write_csv(separator="\t" if ".tsv" in name else ",")
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def rows_of(path: Path, **settings: Any) -> tuple[list[dict[str, Any]], Notes]:
    table = {"file": path.name, "columns": {}} | {
        name: settings.pop(name, None) for name in ("sheet", "dates")
    }
    files = {"source": "files", "format": "table", "root": str(path.parent), "table": table}
    config = Corpus.model_validate(BASE | files | settings)
    found, notes = read_rows(read, Source(path.parent, {"file": path}, None), config)
    assert sum(entry["rows"] for entry in found) == notes.read["table"] and isinstance(notes, Notes)
    return found, notes


def studies_of(path: Path, **settings: Any) -> dict[str, dict[str, Any]]:
    """The studies of a table by id, each with its values that are not null."""
    return {entry["id"]: entry for entry in rows_of(path, **settings)[0] if "kind" not in entry}


@pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz", "t.parquet", "T.JSONL.GZ"])
@cases(__file__, "kinds of file")
def test_all_kinds_of_file_give_the_same(
    kind: str, case: dict[str, Any], tmp_path: Path, name: str
) -> None:
    path = write(tmp_path / name, [row(**fields) for fields in case["rows"]])
    unit, below = "row" if name.endswith("parquet") else "line", "sv" in name  # the header
    studies = studies_of(path)
    for study, expected in case["studies"].items():
        place = {"file": str(path), "row": f"{unit} {expected['row'] + below}"}
        assert studies.pop(study) == expected | place | {"id": study, "study_id": study}
    assert not studies


@pytest.mark.parametrize(
    ("dates", "times", "form"),
    [
        ([date(2180, 5, 6), date(2180, 5, 7)], [time(8), time(20)], None),
        ([datetime(2180, 5, 6, 8), datetime(2180, 5, 7, 20)], None, None),
        ([datetime(2180, 5, 6), datetime(2180, 5, 7)], [time(8), time(20)], None),
        ([datetime(2180, 5, 6, 8, tzinfo=UTC), datetime(2180, 5, 7, 20, tzinfo=UTC)], None, None),
        ([21800506, 21800507], ["8:00", "20:00"], "YYYYMMDD"),
        ([21800506.0, 21800507.0], ["08:00", "20:00:00.0"], "YYYYMMDD"),
        (["2180/5/6 8:00", "2180/05/07 20:00"], None, "YYYY/MM/DD"),
    ],
)
def test_typed_dates_and_times(
    tmp_path: Path, dates: list, times: list | None, form: str | None
) -> None:
    rows = [
        row(7, study, findings=float("nan"), impression=text)
        for study, text in ((2, "A"), (1, "B"))
    ]
    columns = {"date": pl.Series(dates)} | ({"time": pl.Series(times)} if times else {})
    write(tmp_path / "t.parquet", rows)
    pl.DataFrame(rows).with_columns(**columns).write_parquet(tmp_path / "t.parquet")
    study = studies_of(tmp_path / "t.parquet", dates=form)["1"]
    assert (study["prior_impression"], study["gap_days"]) == ("A", 1.5)
    assert study["subject_id"] == "7" and not {"findings", "prior_findings"} & study.keys()


#: A line end as it is written by systems, spreadsheets, XML and printers.
LINE_ENDS = [
    "\r\n",
    "\r",
    "\r\r\n",
    "\n\r",
    "_x000D_\n",
    "_x000d__x000a_",
    "\v",
    "\f",
    "\x85",
    "\u2028",
]
LINES = st.lists(
    st.sampled_from(["No pleural", "effusion.", "FINDINGS: Clear", "IMPRESSION:", "- heart", "x"]),
    min_size=1,
    max_size=5,
)


@given(lines=LINES, end=st.sampled_from(LINE_ENDS))
@example(lines=["FINDINGS: No pleural", "effusion."], end="\r\n")
def test_a_line_end_is_one_character_however_it_is_written(
    lines: list[str], end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("ends")
    texts = [one.join(lines) for one in ("\n", end)]
    for column in ("findings", "whole_report", "previous_report"):
        rows = [row("p", "s", **({"findings": "Clear."} | {column: text})) for text in texts]
        if column == "whole_report":
            rows = [{name: one[name] for name in one if name != "findings"} for one in rows]
        plain, other = (
            rows_of(write(folder / "t.parquet", [one]), cleaner="decimals")[0] for one in rows
        )
        assert plain == other


def test_times_with_a_zone_without_a_name_are_refused(tmp_path: Path) -> None:
    """polars panics at them."""
    dates = pa.array([datetime(2180, 5, 6)], pa.timestamp("us", "+05:30"))
    pq.write_table(pa.table({"date": dates}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet has a column that polars cannot .* in UTC"):
        studies_of(tmp_path / "t.parquet")


@pytest.mark.parametrize(("name", "content", "expected"), listed_cases(__file__, "broken"))
def test_broken_files(tmp_path: Path, name: str, content: str, expected: str) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError) as caught:
        studies_of(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value) and expected in str(caught.value)
    assert SECRET not in str(caught.value)


PICTURE = [{"bytes": b"one"}, {"bytes": b"two", "path": "2.png"}]


@pytest.mark.parametrize(
    ("name", "images", "views", "kept"),
    [
        ("t.parquet", [PICTURE[1], PICTURE[0]], ["PA", "AP"], {"s", "t"}),
        ("t.parquet", [b"one", None], ["PA", "AP"], {"s"}),
        ("t.parquet", [[PICTURE[0]], PICTURE], [["PA"], ["AP", "LL"]], {"s", "t"}),
        ("t.parquet", [[], ["2.png", "3.png"]], [[], ["AP", "LL"]], {"t"}),
        ("t.jsonl", [["1.png", "2.png"], ["3.png"]], [["PA", "LL"], ["PA"]], {"s", "t"}),
        ("t.csv", ["['1.png', '2.png']", "3.png"], ["['PA', 'LL']", "PA"], {"s", "t"}),
    ],
)
def test_lists_and_pictures_come_with_the_lines_that_mend_them(
    tmp_path: Path, name: str, images: list, views: list, kept: set[str]
) -> None:
    """Lists of pictures take two runs; an examination without an image keeps a row."""
    table = {"subject": ["p", "q"], "study": ["s", "t"], "view": views, "image": images}
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    path = write(tmp_path / name, [one | {"findings": "Clear."} for one in rows])
    for _ in range(2):
        try:
            studies_of(path)
        except DataError as refused:
            sentence, _, lines = str(refused).partition("\n")
            assert "set corpus.table.file to the file that they write" in sentence
            exec(lines, {})
            path = Path(mended_path(path))
    assert {entry["id"] for entry in studies_of(path).values()} == kept
    found = pl.read_parquet(path)
    assert set(found["study"]) == {"s", "t"}
    if isinstance(images[0], bytes):
        assert (tmp_path / found["image"][0]).read_bytes() == b"one"


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


@pytest.mark.parametrize("given", [{}, {"split": None}])
def test_split_by_subject_where_the_table_has_none(tmp_path: Path, given: dict) -> None:
    path = write(tmp_path / "t.parquet", [row(f"p{n % 40}", f"s{n}", **given) for n in range(80)])
    studies = studies_of(path, split={"val": 0.3, "test": 0.3}, seed=3)
    for study in studies.values():
        assert study["split"] == seeded_split(study["subject_id"], 3, 0.3, 0.3)
    assert {study["split"] for study in studies.values()} == {"train", "val", "test"}
