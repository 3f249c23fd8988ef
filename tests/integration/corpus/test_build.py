"""The corpus stage: every row is used, listed or beyond the limit, and what is wrong with files and
rows is named."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.core.io import read_json, yaml_beside
from pacer.core.schemas import TRUTH_SCHEMA, read_about, read_images, read_records, read_table
from pacer.corpus.build_corpus import build_corpus
from pacer.corpus.source import describe_source
from pacer.text.cleaning.cleaners import CLEANERS
from tests.support.cases import cases
from tests.support.corpus import BASE, TinyCorpus, built, lines_of, looks_of, record


def problems_of(tiny) -> pl.DataFrame:
    return pl.read_csv(tiny.out / "corpus" / "problems.csv")


@cases(__file__, "bad", "sound")
def test_a_record(kind: str, case: dict[str, Any], tiny) -> None:
    nth, context = {"bad": 1, "sound": 0}[kind], case["context"]
    row = tiny.files[context]["train"][nth] | case.get("change", {})
    tiny.files[context]["train"][nth] = {
        name: row[name] for name in row if name not in case.get("absent", [])
    }
    tiny.settings |= case.get("settings", {})
    if kind == "sound":
        audit = tiny.build()
        record = tiny.records.filter(context=context).row(0, named=True)
        assert {name: record[name] for name in case["record"]} == case["record"]
        assert audit["excluded"]["count"] == 0 and audit["records"] == 16
        assert {topic: audit["notes"][topic] for topic in case.get("notes", {})} == case.get(
            "notes", {}
        )
        assert "Previous reports empty after cleaning" not in lines_of(audit)
        return
    with pytest.raises(DataError) as error:
        tiny.build()
    message = str(error.value)
    assert f"{context}.json train[1] {case['field']}: " in message and case["reason"] in message
    assert "1 unusable row, but corpus.max_bad_rows allows 0" in message
    assert not (tiny.out / "corpus").exists()
    tiny.settings["max_bad_rows"] = 1
    audit = tiny.build()
    assert audit["excluded"]["count"] == 1 and audit["records"] == 15
    assert problems_of(tiny)[["kind", "row", "field"]].row(0) == ("bad", "train[1]", case["field"])
    read = dict.fromkeys(("sn", "sw", "mn", "mw"), 4)
    others = dict.fromkeys(("left_out", "previous_only", "beyond_limit"), 0)
    assert audit["rows"] == {"read": read, "used": 15, "bad": 1} | others


def test_images_and_audit(tiny) -> None:
    audit = tiny.build()
    images = read_images(tiny.out / "corpus" / "images.parquet")
    assert images.height == 8 and set(images.select("width", "height").iter_rows()) == {(20, 30)}
    assert read_json(tiny.out / "corpus" / "audit.json") == audit
    assert audit["contexts"]["sn"]["train"] == {
        "records": 2,
        "studies": 2,
        "subjects": 1,
        "paper": 172608,
    }


def test_a_record_id_that_occurs_again_is_a_bad_row(tiny) -> None:
    tiny.files["sn"]["test"].append(tiny.files["sn"]["train"][0])
    with pytest.raises(
        DataError,
        match=r"sn\.json test\[1\] id: sn-50000001 of .*sn\.json train\[0\], the record id "
        r"occurs more than",
    ):
        tiny.build()
    tiny.settings["max_bad_rows"] = 1
    audit = tiny.build()
    assert audit["records"] == 16
    assert audit["excluded"]["reasons"] == {"id: the record id occurs more than once": 1}
    assert tiny.records.filter(record_id="sn-50000001")["split"].to_list() == ["train"]


def test_when_nothing_is_left_the_reasons_are_told(tiny) -> None:
    tiny.settings |= {"target": "findings", "max_bad_rows": 0}
    for content in tiny.files.values():
        for row in (row for rows in content.values() for row in rows):
            row["finding"] = "s"
    with pytest.raises(DataError) as error:
        tiny.build()
    assert "no usable records are left: 16 × no findings section (corpus.target: findings)" in str(
        error.value
    )
    assert pl.read_csv(tiny.out / "corpus.problems.csv").height == 16
    assert not list(tiny.out.rglob("*.parquet"))  # no half-made corpus stays


def test_every_problem_is_in_the_table_even_when_the_corpus_is_refused(tiny) -> None:
    tiny.files["sn"]["train"] = [{"id": str(n)} for n in range(25)]
    with pytest.raises(DataError, match=r"25 unusable rows(.|\n)*train\[0\] .* \(and 24 more\)"):
        tiny.build()
    table = pl.read_csv(tiny.out / "corpus.problems.csv")
    assert table.height == 25
    assert table.columns == ["file", "row", "id", "field", "reason", "kind", "rows"]
    assert table["row"].to_list() == [f"train[{number}]" for number in range(25)]
    assert table["id"].to_list() == list(range(25))
    tiny.files["sn"]["train"] = []
    tiny.build()
    assert not (tiny.out / "corpus.problems.csv").exists()


def test_overlap_between_splits_is_audited(tiny) -> None:
    moved = dict(tiny.files["sn"]["train"][1], id="other")
    tiny.files["sn"]["test"].append(moved)
    audit = tiny.build()
    lines = lines_of(audit)
    assert (
        lines["Patients in two splits"] == lines["Studies in two splits"] == "1 in train and test"
    )
    assert "Patients in two splits" in looks_of(audit) and "Images used more than once" in looks_of(
        audit
    )


def test_limit_takes_the_first_studies_of_each_context_and_split(tiny) -> None:
    tiny.files["sn"]["train"].insert(1, dict(tiny.files["sn"]["train"][0], id="again"))
    for limit, records in (
        (1, ["sn-50000001", "sn-again"]),
        (2, ["sn-50000001", "sn-again", "sn-50000002"]),
    ):
        tiny.settings["limit"] = limit
        tiny.build()
        assert tiny.records.filter(context="sn", split="train")["record_id"].to_list() == records
        assert tiny.records.filter(split="test").height == 4


def test_an_unusable_image_is_named_by_its_path_under_a_limit(tiny) -> None:
    image = tiny.files["sn"]["train"][0]["APPA_imagepath"]
    (tiny.root / "files" / image).unlink()
    tiny.settings["limit"] = 1
    with pytest.raises(DataError) as error:
        tiny.build()
    assert f"{image} below {tiny.root / 'files'}" in str(error.value).replace("\n", " ")


def test_findings_target_leaves_records_without_findings_out(tiny) -> None:
    tiny.files["sn"]["train"][0]["finding"] = "s"
    tiny.settings["target"] = "findings"
    audit = tiny.build()
    records = tiny.records
    assert set(records["sections"]) == {"findings"}
    assert set(records["report"]) == {"no effusion . heart : normal ."}
    assert audit["left_out"] == {
        "count": 1,
        "reasons": {"no findings section (corpus.target: findings)": 1},
    }
    assert problems_of(tiny)[["kind", "row"]].row(0) == ("left out", "train[0]")
    assert set(records["emphasis_text"]) == {"no effusion . heart : normal . no acute process ."}
    assert audit["excluded"]["count"] == 0


def test_sentences_that_presuppose_a_previous_report_are_counted_or_stripped(tiny) -> None:
    """Of the records without one alone; what says nothing else is left out."""
    comparing = "The effusion is unchanged since the prior study."
    impression = f"1. Clear lungs. 2. {comparing}"
    for context in ("sn", "mw"):
        tiny.files[context]["train"][0] |= {"finding": comparing, "impression": impression}
    tiny.files["mn"]["train"][0] |= {"finding": comparing, "impression": "s"}
    audit = tiny.build()
    counts = "sn 25.0% of 4, mn 25.0% of 4; "
    said = lines_of(audit)["Targets that refer to a previous report they do not have"]
    assert said.startswith(f"{counts}corpus.unseen_comparisons: strip removes")
    assert tiny.records.row(0, named=True)["report_raw"] == f"{comparing} {impression}"

    tiny.settings["unseen_comparisons"] = "strip"
    audit = tiny.build()
    reason = "every sentence presupposes a previous report (corpus.unseen_comparisons: strip)"
    assert audit["left_out"] == {"count": 1, "reasons": {reason: 1}}
    said = lines_of(audit)["Targets that refer to a previous report they do not have"]
    assert said == f"{counts}stripped (corpus.unseen_comparisons)"
    records = {row["record_id"]: row for row in tiny.records.to_dicts()}
    stripped, whole = records["sn-50000001"], records["mw-50000001"]
    assert (stripped["report_raw"], stripped["report"]) == ("Clear lungs.", "clear lungs .")
    assert (stripped["sections"], stripped["emphasis"]) == ("impression", None)
    assert (whole["sections"], whole["report_raw"].count(comparing)) == ("findings+impression", 2)
    assert whole["emphasis"] is not None


def test_truth_travels_with_the_studies_in_use(tiny) -> None:
    tiny.write()
    described = describe_source(tiny.root, ".", "files", {c: f"{c}.json" for c in tiny.files})
    (tiny.root / "source.json").write_text(json.dumps(described))
    studies = [f"5000000{n}" for n in range(1, 6)]
    lists: dict[str, list[str]] = {key: [] for key in ("prior_only", "states", "boxes")}
    of_all = {"subject_id": "1", "split": "train", "lateral_only": ["edema"], **lists}
    rows = [{"study_id": study} | of_all | dict.fromkeys(FINDINGS, True) for study in studies]
    pl.DataFrame(rows, schema=TRUTH_SCHEMA).write_parquet(tiny.root / "truth.parquet")
    build_corpus(tiny.config(), tiny.root, tiny.out / "corpus")
    assert read_about(tiny.out / "corpus" / "records.parquet")["generated"]
    kept = read_table(tiny.out / "corpus" / "truth.parquet", TRUTH_SCHEMA)
    assert kept["study_id"].to_list() == studies[:4]


SECRET = "Zephyrine opacity"
COLUMNS = (
    "subject",
    "study",
    "view",
    "image",
    "date",
    "time",
    "findings",
    "impression",
    "indication",
    "split",
)
KINDS = yaml_beside(__file__, "build.yaml")["kinds"]


def rows_of(images: Path) -> tuple[list[dict[str, Any]], dict[int, tuple[str | None, str]]]:
    """Ten sound studies and a thousand bad ones, and what is expected of the line of each bad
    study."""
    rows, expected = list[dict[str, Any]](), dict[int, tuple[str | None, str]]()
    for number in range(1, 1011):
        bad = (
            KINDS[number % len(KINDS)]
            if number > 10
            else {"changes": [{}], "field": None, "reason": ""}
        )
        changes, field, reason = bad["changes"], bad["field"], bad["reason"]
        good: dict[str, Any] = dict.fromkeys(COLUMNS, "") | {
            "subject": f"p{number}",
            "study": f"s{number}",
            "view": "PA",
            "image": "f.png",
            "date": "2180-01-01",
            "findings": f"{SECRET} {number}.",
            "split": "train",
        }
        # a study is listed by its first row, one of two subjects by both, a further image by its
        # own
        first = field in ("findings", "date") or "the same file is given" in reason
        both = "under more than one" in reason
        for place, change in enumerate(changes):
            line = len(rows) + 2
            rows.append(
                good | {name: value.replace("{n}", str(number)) for name, value in change.items()}
            )
            if number > 10 and (both or place == (0 if first else len(changes) - 1)):
                expected[line] = field, reason.format(n=number, images=images, before=line - 1)
    return rows, expected


def test_every_bad_row_is_listed_and_none_stops_the_reading(tmp_path: Path) -> None:
    (tmp_path / "images" / "folder").mkdir(parents=True)
    Image.new("L", (16, 16)).save(tmp_path / "images" / "f.png")
    (tmp_path / "images" / "text.png").write_text(SECRET)
    rows, expected = rows_of(tmp_path / "images")
    assert len(KINDS) > 30 and len(expected) >= 1000
    pl.DataFrame(rows).write_csv(tmp_path / "studies.csv")
    table = {"format": "table", "table": {"file": "studies.csv", "columns": {}}, "images": "images"}
    settings = BASE | {"source": "files", "root": str(tmp_path), "max_bad_rows": 10_000} | table
    audit = built(Corpus.model_validate(settings), tmp_path)
    problems = (tmp_path / "corpus" / "problems.csv").read_text()
    listed = pl.read_csv(tmp_path / "corpus" / "problems.csv", infer_schema=False)
    listed = listed.filter(pl.col("kind") != "doubted")  # all sound studies have one image
    lines = {
        int(row.removeprefix("line ")): (field, reason)
        for row, field, reason in listed[["row", "field", "reason"]].rows()
    }
    assert lines.keys() == expected.keys()
    wrong = [
        (line, lines[line], want)
        for line, want in expected.items()
        if lines[line][0] != want[0] or want[1] not in lines[line][1]
    ]
    assert wrong == []
    listed_kinds = ("bad", "left_out", "previous_only")
    assert listed["rows"].cast(int).sum() == sum(audit["rows"][kind] for kind in listed_kinds)
    assert set(listed["kind"]) == {"bad", "left out", "previous report only"}
    assert lines_of(audit)["Images missing or unreadable"] == "60 missing, 4 unreadable"
    assert SECRET not in problems
    records = read_records(tmp_path / "corpus" / "records.parquet")
    assert {f"s{number}" for number in range(1, 11)} <= set(records["study_id"])


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.just("s"),
    st.just("\ud800"),
    st.lists(st.floats() | st.integers() | st.text(max_size=3), max_size=4),
    st.dictionaries(st.text(), st.none(), max_size=1),
    st.integers(10**300, 10**310),
)
FIELDS = [*record("mw", 1, 2), "study_id", "subject_id", "surplus"]
CHANGES = st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=4)
RECORDS = st.lists(st.tuples(st.integers(1, 4), CHANGES, st.booleans()) | ODD, max_size=6)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    files=st.fixed_dictionaries(
        {c: st.fixed_dictionaries({"train": RECORDS, "test": RECORDS}) for c in ("sn", "mw")}
    ),
    unseen=st.sampled_from(("keep", "strip")),
    target=st.sampled_from(["findings", "findings_and_impression"]),
    cleaner=st.sampled_from(sorted(CLEANERS)),
    limit=st.none() | st.integers(1, 3),
)
def test_rows_are_conserved(tmp_path_factory, files, unseen, target, cleaner, limit) -> None:
    root = tmp_path_factory.mktemp("corpus")
    tiny = TinyCorpus(root / "raw", root / "out")
    tiny.files = {
        c: {s: [_record(c, r) for r in rows] for s, rows in splits.items()}
        for c, splits in files.items()
    }
    for study in range(1, 5):
        for shift, name in enumerate(
            ("frontal", "lateral")
        ):  # each with its own grey: equal pictures are listed too
            path = tiny.root / "files" / f"p0/p7/s{study}/{name}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (16, 16), 20 * study + 100 * shift).save(path)
    tiny.settings = {
        "unseen_comparisons": unseen,
        "target": target,
        "cleaner": cleaner,
        "limit": limit,
        "max_bad_rows": 1000,
    }
    given_rows = sum(len(rows) for splits in tiny.files.values() for rows in splits.values())
    try:
        audit = tiny.build()
    except DataError as error:
        assert "no usable records are left" in str(error)
        return
    account = audit["rows"]
    assert sum(account["read"].values()) == given_rows
    # a used row gives one record here
    listed = pl.read_csv(tiny.out / "corpus" / "problems.csv", infer_schema=False)
    assert audit["records"] == account["used"]
    unused = listed.filter(
        pl.col("kind") != "doubted"
    )  # those are used, such as one picture in two splits
    assert unused.height == account["bad"] + account["left_out"] == listed["rows"].cast(int).sum()
    assert tiny.records.height == audit["records"]


def _record(context, drawn):
    if not isinstance(drawn, tuple):
        return drawn
    study, changes, drop = drawn
    content = record(context, 7, study) | changes
    if drop and changes:
        del content[sorted(changes)[0]]
    return content
