"""From annotation files to tables: field rules, bad rows, limits, targets and the audit."""

from __future__ import annotations

import json

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.data.build_corpus import build_corpus
from pacer.data.findings import FINDINGS
from pacer.data.schemas import TRUTH_SCHEMA, read_about, read_images, read_table
from pacer.data.source import describe_source
from tests.support.corpus import lines_of, looks_of


def problems_of(tiny) -> pl.DataFrame:
    return pl.read_csv(tiny.out / "corpus" / "problems.csv")


def rows_of(audit, used: int) -> dict:
    """The account of the sixteen rows of the tiny corpus, of which some are bad."""
    read = dict.fromkeys(("sn", "sw", "mn", "mw"), 4)
    return {"read": read, "used": used, "bad": 16 - used, "left_out": 0, "beyond_limit": 0}


def test_rows_of_the_four_contexts(tiny) -> None:
    audit = tiny.build()
    records = tiny.records
    assert audit["records"] == records.height == 16
    row = records.row(by_predicate=pl.col("record_id") == "mw-50000001", named=True)
    assert row == {
        "record_id": "mw-50000001",
        "context": "mw",
        "split": "train",
        "study_id": "50000001",
        "subject_id": "10000001",
        "view": "PA",
        "frontal": "p10/p10000001/s50000001/frontal.jpg",
        "lateral": "p10/p10000001/s50000001/lateral.jpg",
        "report": "no effusion . heart : normal . no acute process .",
        "report_raw": "No effusion. 2. Heart: normal. No acute process.",
        "findings_original": None,
        "sections": "findings+impression",
        "prior_report": "small effusion .",
        "indication": "Cough.",
        "history": None,
        "emphasis": [0.0, 1.0, 0.0],
        "emphasis_text": None,
    }
    plain = records.row(by_predicate=pl.col("record_id") == "sn-50000001", named=True)
    assert plain["lateral"] is None
    assert plain["prior_report"] is None
    images = read_images(tiny.out / "corpus" / "images.parquet")
    assert images.height == 8
    assert set(images["width"]) == {20}
    assert set(images["height"]) == {30}
    assert read_json(tiny.out / "corpus" / "audit.json") == audit
    assert audit["contexts"]["sn"]["train"] == {"records": 2, "studies": 2, "subjects": 1, "paper": 172608}


@pytest.mark.parametrize("flag", ["lordotic", 0, None])
def test_explicit_ids_unknown_views_and_absent_parts(tiny, flag) -> None:
    """A flag that is neither AP nor PA is an unknown view as for upstream, which asks for the findings then."""
    row = tiny.files["sn"]["train"][0]
    row |= {"study_id": "s7", "subject_id": "CXR7", "APPA_flag": flag, "impression": "s", "extra": 1}
    del row["new_scores"]
    audit = tiny.build()
    record = tiny.records.row(0, named=True)
    assert (record["study_id"], record["subject_id"], record["view"]) == ("7", "CXR7", "other")
    assert record["sections"] == "findings"
    assert record["emphasis"] is None
    assert audit["notes"]["unknown_fields"]["sn"] == {"extra": 1}


@pytest.mark.parametrize(
    ("sections", "trained_on"), [(("s", "s"), "s ."), (("___.", "s"), " ."), (("s", "..."), " ."), (("s", " "), " .")]
)
def test_rows_with_an_empty_previous_report_can_be_kept_as_upstream_trains_them(tiny, sections, trained_on) -> None:
    tiny.files["sw"]["train"][1] |= dict(zip(("last_finding", "last_impression"), sections, strict=True))
    tiny.settings["keep_empty_priors"] = True
    audit = tiny.build()
    assert audit["contexts"]["sw"]["train"]["records"] == 2 and audit["excluded"]["count"] == 0
    assert "Previous reports empty after cleaning" not in lines_of(audit)
    records = tiny.records.filter(context="sw", split="train")
    assert records["prior_report"].to_list() == ["small effusion .", trained_on]
    assert tiny.records.filter(context="sn")["prior_report"].null_count() == 4


ABSENT = object()


@pytest.mark.parametrize(
    ("context", "change", "field", "reason"),
    [
        ("sn", {"APPA_flag": False}, "APPA_flag", "Input should be a valid string"),
        ("sn", {"APPA_flag": 3}, "APPA_flag", "3, Input should be a valid string"),
        ("sn", {"finding": None}, "finding", "Input should be a valid string"),
        ("sn", {"finding": "s", "impression": "s"}, "finding", "neither findings nor impression"),
        ("sn", {"finding": "...", "impression": "s"}, "finding", "empty after cleaning"),
        ("sn", {"history": 1}, "history", "Input should be a valid string"),
        ("sn", {"indication": False}, "indication", "Input should be a valid string"),
        ("sn", {"new_scores": "1"}, "new_scores", "Input should be a valid list"),
        ("sn", {"new_scores": ["x"]}, "new_scores", "Input should be a valid number"),
        ("sn", {"new_scores": ["nan"]}, "new_scores", "Input should be a finite number"),
        ("sn", {"APPA_imagepath": "image.jpg"}, "APPA_imagepath", "the path names no subject and study"),
        ("sn", {"APPA_imagepath": "p1/p9/s9/gone.jpg"}, "APPA_imagepath", "the file does not exist"),
        ("mn", {"lateral_imagepath": "s"}, "lateral_imagepath", "the file does not exist"),
        ("sw", {"last_finding": "s", "last_impression": "s"}, "last_finding", "needs one that is not empty"),
        ("sn", {"id": ""}, "id", "an id is not blank"),
        *(
            ("sn", {name: ABSENT}, name, "Field required")
            for name in ("id", "finding", "APPA_flag", "APPA_imagepath", "history")
        ),
    ],
)
def test_bad_rows_are_named_or_excluded(tiny, context, change, field, reason) -> None:
    row = tiny.files[context]["train"][1] | change
    tiny.files[context]["train"][1] = {name: value for name, value in row.items() if value is not ABSENT}
    with pytest.raises(DataError) as error:
        tiny.build()
    message = str(error.value)
    assert f"{context}.json train[1] {field}: " in message
    assert reason in message
    assert "1 unusable row, corpus.max_bad_rows allows 0" in message
    assert not (tiny.out / "corpus").exists()

    tiny.settings["max_bad_rows"] = 1
    audit = tiny.build()
    assert audit["records"] == 15
    assert audit["excluded"]["count"] == 1
    assert problems_of(tiny)[["kind", "row", "field"]].row(0) == ("bad", "train[1]", field)
    assert audit["rows"] == rows_of(audit, used=15)


def test_fields_that_the_context_lacks_are_not_read(tiny) -> None:
    tiny.build()
    before = tiny.records
    tiny.files["sn"]["train"][0] |= {"lateral_imagepath": 0, "last_finding": 0, "last_impression": ["x"]}
    tiny.files["sn"]["train"][1] |= {"lateral_imagepath": "a/b.jpg", "last_finding": "Small effusion."}
    tiny.build()
    assert tiny.records.equals(before)


def test_a_record_id_that_occurs_again_is_a_bad_row(tiny) -> None:
    tiny.files["sn"]["test"].append(tiny.files["sn"]["train"][0])
    with pytest.raises(
        DataError, match=r"sn\.json test\[1\] id: sn-50000001 of .*sn\.json train\[0\], the record id occurs more than"
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
    assert "no usable record is left: 16 × no findings section (corpus.target: findings)" in str(error.value)
    assert pl.read_csv(tiny.out / "corpus.problems.csv").height == 16
    assert not list(tiny.out.rglob("*.parquet"))  # no half-made corpus stays


def test_every_problem_is_in_the_table_even_when_the_corpus_is_refused(tiny) -> None:
    tiny.files["sn"]["train"] = [{"id": str(n)} for n in range(25)]
    with pytest.raises(DataError, match=r"25 unusable rows(.|\n)*\.\.\. and 15 more"):
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
    overlap = audit["overlap"]
    assert overlap["study"]["train-test"] == {"count": 1, "examples": ["50000002"]}
    assert overlap["subject"]["train-test"] == {"count": 1, "examples": ["10000001"]}
    assert overlap["subject"]["train-val"]["count"] == 0
    assert lines_of(audit)["Patients in two splits"] == "1 in train and test"
    assert "Patients in two splits" in looks_of(audit) and "Images used more than once" in looks_of(audit)


def test_limit_takes_the_first_studies_of_each_context_and_split(tiny) -> None:
    tiny.files["sn"]["train"].append(dict(tiny.files["sn"]["train"][0], id="again"))
    tiny.settings["limit"] = 1
    tiny.build()
    sn_train = tiny.records.filter(context="sn", split="train")
    assert sn_train["record_id"].to_list() == ["sn-50000001", "sn-again"]
    assert tiny.records.filter(split="test").height == 4


def test_findings_target_leaves_records_without_findings_out(tiny) -> None:
    tiny.files["sn"]["train"][0]["finding"] = "s"
    tiny.settings["target"] = "findings"
    audit = tiny.build()
    records = tiny.records
    assert set(records["sections"]) == {"findings"}
    assert set(records["report"]) == {"no effusion . heart : normal ."}
    assert audit["left_out"] == {"count": 1, "reasons": {"no findings section (corpus.target: findings)": 1}}
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
    counts = "sn 25.0 % of 4, mn 25.0 % of 4; "
    said = lines_of(audit)["Targets that mention an absent previous report"]
    assert said.startswith(f"{counts}corpus.unseen_comparisons: strip takes out")
    assert tiny.records.row(0, named=True)["report_raw"] == f"{comparing} {impression}"

    tiny.settings["unseen_comparisons"] = "strip"
    audit = tiny.build()
    reason = "every sentence presupposes a previous report (corpus.unseen_comparisons: strip)"
    assert audit["left_out"] == {"count": 1, "reasons": {reason: 1}}
    said = lines_of(audit)["Targets that mention an absent previous report"]
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


def test_words_for_no_text_are_none_in_annotations_too(tiny) -> None:
    for context, sections in (("sn", ("finding", "indication")), ("sw", ("last_finding", "last_impression"))):
        tiny.files[context]["train"][0] |= dict.fromkeys(sections, "N/A")
    tiny.settings["max_bad_rows"] = 1
    audit = tiny.build()
    record = next(row for row in tiny.records.to_dicts() if row["record_id"] == "sn-50000001")
    assert record["sections"] == "impression" and record["indication"] is None
    assert audit["notes"]["absent_words"] == {
        "texts": dict.fromkeys(("findings", "indication", "prior_findings", "prior_impression"), 1)
    }
    assert audit["excluded"]["count"] == 1  # sw, whose previous report is none


def test_marks_alone_are_cleaned_as_upstream_cleans_them(tiny) -> None:
    """Beside another section they leave their period, which new_scores count."""
    tiny.files["sn"]["train"][0] |= {"finding": "--.", "indication": "___"}
    audit = tiny.build()
    record = tiny.records.row(by_predicate=pl.col("record_id") == "sn-50000001", named=True)
    assert (record["sections"], record["indication"]) == ("findings+impression", "___")
    assert "absent_words" not in audit["notes"]


def test_a_leading_slash_of_an_annotation_is_upstreams(tiny) -> None:
    row = tiny.files["sn"]["train"][0]
    row["APPA_imagepath"] = "/" + row["APPA_imagepath"]
    assert tiny.build()["rows"]["bad"] == 0
