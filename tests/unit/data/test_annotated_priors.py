"""The previous reports of MIMIC-RG4's annotations, checked against PhysioNet's metadata."""

from __future__ import annotations

import csv
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from tests.support.corpus import TinyCorpus

PATIENT, OTHER = "10000001", "10000002"
#: Studies of one patient in the order of their dates, which is not that of their ids; and one of another patient.
DATES = {"50000009": "21500101", "50000002": "21510101", "50000001": "21520101", "50000007": "21510101"}


@pytest.fixture
def corpus(tiny: TinyCorpus) -> TinyCorpus:
    """The study 50000002 of 2151, with previous reports as a test gives them."""
    with open(tiny.root / "metadata.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["dicom_id", "subject_id", "study_id", "ViewPosition", "StudyDate", "StudyTime"])
        for study, date in DATES.items():
            rows.writerow([f"d{study}", PATIENT, study, "PA", date, "120000.0" if study != "50000007" else "130000.0"])
        rows.writerow(["dother", OTHER, "50000003", "PA", "21400101", "0"])
    tiny.files = {"sw": tiny.files["sw"]}
    record = tiny.files["sw"]["train"][1]
    assert "s50000002" in record["APPA_imagepath"]
    tiny.files["sw"] = {"train": [record], "val": [], "test": []}
    return tiny


def checked(corpus: TinyCorpus, **prior: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    corpus.settings = {"mimic_cxr": {"reports": None, "metadata": "metadata.csv", "split": None}}
    corpus.files["sw"]["train"][0] |= prior
    audit = corpus.build()
    problems = pl.read_csv(corpus.out / "corpus" / "problems.csv", infer_schema=False)
    assert corpus.records.height == 1
    return audit, problems.to_dicts()


def path(subject: str, study: str) -> str:
    return f"p{subject[:2]}/p{subject}/s{study}/x.jpg"


@pytest.mark.parametrize(
    ("image", "outcome"),
    [
        (path(PATIENT, "50000009"), None),
        (path(PATIENT, "50000001"), "of a later study"),
        (path(PATIENT, "50000001").replace("/", "\\"), "of a later study"),
        (path(PATIENT, "50000007"), "of a later study"),  # an hour later
        (path(PATIENT, "50000002"), "of the same study"),
        (path(OTHER, "50000003"), "of another patient"),
        (path(PATIENT, "59999999"), "its study was not found"),
        (path(OTHER, "59999999"), "of another patient"),  # its study is not in the metadata
        ("unused.jpg", "its study was not found"),
        (None, "its study was not found"),
    ],
)
def test_what_a_previous_report_is_of(corpus: TinyCorpus, image: str | None, outcome: str | None) -> None:
    audit, problems = checked(corpus, last_APPA_imagepath=image)
    notes = audit["notes"]
    if outcome is None:
        assert notes["checked_priors"] == {"sw": {"of an earlier study": 1}} and not problems
    else:
        assert notes["doubted_priors"] == {"sw": {outcome: 1}} and "checked_priors" not in notes
        [line] = problems
        assert (line["row"], line["field"], line["reason"]) == ("train[0]", "last_finding", outcome)
        assert (line["kind"], line["rows"]) == ("doubted", "0")
        [line] = [line for line in audit["checks"] if "known to be of an earlier study" in line["name"]]
        assert not line["good"] and f"1 × {outcome}" in line["detail"]
    assert "doubted" not in str(audit["left_out"]) and audit["rows"]["used"] == 1


@pytest.mark.parametrize(
    ("date", "time", "outcome"),
    [
        ("21530101", "", "of a later study"),  # the day tells
        ("21510101", "", "the order of the two studies is not known"),
        ("", "", "the order of the two studies is not known"),
        ("21510101", "120000.0", "the order of the two studies is not known"),
    ],
)
def test_a_day_without_a_time(corpus: TinyCorpus, date: str, time: str, outcome: str) -> None:
    table = corpus.root / "metadata.csv"
    table.write_text(table.read_text() + f"dlast,{PATIENT},50000010,PA,{date},{time}\n")
    audit, _ = checked(corpus, last_APPA_imagepath=path(PATIENT, "50000010"))
    assert audit["notes"]["doubted_priors"] == {"sw": {outcome: 1}}


def test_without_metadata_nothing_is_checked(corpus: TinyCorpus) -> None:
    audit = corpus.build()
    assert not {"checked_priors", "doubted_priors"} & audit["notes"].keys()


@pytest.mark.parametrize("key", ["reports", "split"])
def test_other_files_beside_annotations_are_refused(corpus: TinyCorpus, key: str) -> None:
    corpus.settings = {"mimic_cxr": {"reports": None, "metadata": "metadata.csv", "split": None} | {key: "x.csv"}}
    with pytest.raises(ValidationError, match=rf"mimic_cxr\.{key} is 'x\.csv', but .* rg4.*set it to null"):
        corpus.config()


def test_only_records_in_use_are_counted(corpus: TinyCorpus) -> None:
    """The second record has no text, and the third is beyond the limit."""
    first = corpus.files["sw"]["train"][0] | {"last_APPA_imagepath": path(PATIENT, "50000009")}
    without_text = first | {"id": "a", "finding": "s", "impression": "s"}
    corpus.files["sw"]["train"] = [first, without_text, first | {"id": "b", "study_id": "50000001"}]
    files = {"reports": None, "metadata": "metadata.csv", "split": None}
    corpus.settings = {"limit": 1, "max_bad_rows": 1, "mimic_cxr": files}
    assert corpus.build()["notes"]["checked_priors"] == {"sw": {"of an earlier study": 1}}


@pytest.mark.parametrize("image", [0, None, [1], "\ud800"])
def test_a_record_needs_no_previous_image(corpus: TinyCorpus, image: Any) -> None:
    checked(corpus, last_APPA_imagepath=image)
