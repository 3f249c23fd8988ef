"""R2Gen's annotation.json, for IU X-Ray and MIMIC-CXR."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pacer.config import Corpus
from pacer.data.account import Account
from pacer.data.readers.r2gen import read
from pacer.data.source import Source
from tests.support.corpus import BASE, read_rows

IU = {
    "id": "CXR2384_IM-0942",
    "report": "Lungs are clear.",
    "split": "train",
    "image_path": ["CXR2384_IM-0942/0.png", "CXR2384_IM-0942/1.png"],
}
FOLDER = "p10/p10000032/s50414267"
MIMIC = {
    "id": "02aa804e",
    "report": "No effusion.",
    "image_path": [f"{FOLDER}/02aa804e.jpg"],
    "split": "train",
    "subject_id": 10000032,
    "study_id": 50414267,
}


def rows_of(folder: Path, splits: Any, views: str | None = None) -> tuple[list[dict[str, Any]], Account]:
    (folder / "annotation.json").write_text(json.dumps(splits))
    files = {"annotation": folder / "annotation.json"}
    if views is not None:
        files["views"] = folder / "views.csv"
        files["views"].write_text(views)
    of_format = {"format": "r2gen", "r2gen": {"annotation": "annotation.json", "views": None}}
    of_files = {"source": "files", "root": str(folder), "contexts": ["sn", "mn"]}
    config = Corpus.model_validate(BASE | of_files | of_format)
    return read_rows(read, Source(folder / "images", files, None), config)


def row_of(folder: Path, record: Any, views: str | None = None) -> tuple[dict[str, Any], Account]:
    (row,), notes = rows_of(folder, {"train": [record]}, views)
    assert notes.read == {"annotation": 1}
    return row, notes


def test_iu_xray(tmp_path: Path) -> None:
    row, notes = row_of(tmp_path, IU)
    assert row == {
        "file": str(tmp_path / "annotation.json"),
        "row": "train[0]",
        "rows": 1,
        "id": "CXR2384_IM-0942",
        "contexts": ["sn", "mn"],
        "split": "train",
        "study_id": "CXR2384",
        "subject_id": "CXR2384",
        "view": "other",
        "frontal": "CXR2384_IM-0942/0.png",
        "lateral": "CXR2384_IM-0942/1.png",
        "findings": "Lungs are clear.",
    }
    assert notes.notes == {"assumed_views": {"annotation": {"images": 2}}}
    row, _ = row_of(tmp_path, IU | {"id": "CXR1_1_IM-0001", "image_path": ["CXR1_1_IM-0001/0.png"]})
    assert (row["subject_id"], row["contexts"], row.get("lateral")) == ("CXR1", ["sn"], None)


@pytest.mark.parametrize("absent", [(), ("subject_id",), ("study_id",), ("subject_id", "study_id", "split")])
def test_mimic_ids_from_fields_or_path(absent: tuple[str, ...], tmp_path: Path) -> None:
    row, notes = row_of(tmp_path, {name: value for name, value in MIMIC.items() if name not in absent})
    assert (row["id"], row["subject_id"], row["study_id"]) == ("02aa804e", "10000032", "50414267")
    assert (row["frontal"], row["view"], row["contexts"]) == (f"{FOLDER}/02aa804e.jpg", "other", ["sn"])
    assert notes.notes.get("unknown_fields", {}) == {}


def test_fields_win_over_the_path_and_lose_mimics_letters(tmp_path: Path) -> None:
    row, _ = row_of(tmp_path, MIMIC | {"subject_id": "p1", "study_id": "s2"})
    assert (row["subject_id"], row["study_id"]) == ("1", "2")


@pytest.mark.parametrize("line", ["02aa804e,", "02aa804e,LAO", "02aa804e,unheard of", "another,PA"])
def test_unknown_views_of_mimic_are_not_frontal(line: str, tmp_path: Path) -> None:
    row, notes = row_of(tmp_path, MIMIC, f"dicom_id,ViewPosition\n{line}\n")
    assert row["reason"] == "no frontal image"
    assert notes.notes == {"unknown_views": {"views.csv": {"images": 1}}}
    images = [MIMIC["image_path"][0], f"{FOLDER}/b.jpg", f"{FOLDER}/c.jpg"]
    row, notes = row_of(tmp_path, MIMIC | {"image_path": images}, f"dicom_id,ViewPosition\n{line}\nb,LL\n")
    assert row["reason"] == "no frontal image"
    assert notes.notes == {"unknown_views": {"views.csv": {"images": 2}}}
    row, _ = row_of(tmp_path, MIMIC | {"image_path": images}, f"dicom_id,ViewPosition\n{line}\nc,AP\n")
    assert (row["frontal"], row.get("lateral"), row["view"]) == (images[2], None, "AP")


@pytest.mark.parametrize(
    ("views", "frontal", "lateral", "unknown"),
    [
        (("", "PA"), 1, None, 1),
        (("", "LL"), 0, 1, 1),
        (("PA", ""), 0, 1, 1),
        (("LL", ""), None, None, 1),
        (("", ""), 0, 1, 2),
        (("LL", "AP"), 1, 0, 0),
        (("AP", "PA"), 0, None, 0),
    ],
)
def test_known_views_win_over_the_order(
    views: tuple[str, str], frontal: int | None, lateral: int | None, unknown: int, tmp_path: Path
) -> None:
    table = "".join(f"{image},{view}\n" for image, view in zip(IU["image_path"], views, strict=True))
    row, notes = row_of(tmp_path, IU, f"image,view\n{table}")
    assert notes.notes.get("unknown_views", {}).get("views.csv", {}) == ({"images": unknown} if unknown else {})
    if frontal is None:
        assert row["reason"] == "no frontal image"
        return
    assert row["frontal"] == IU["image_path"][frontal]
    assert row.get("lateral") == (None if lateral is None else IU["image_path"][lateral])
    assert row["view"] == {"LL": "other", "": "other"}.get(views[frontal], views[frontal])


def test_the_order_of_several_mimic_images_means_nothing(tmp_path: Path) -> None:
    images = [f"{FOLDER}/{name}.jpg" for name in "abc"]
    row, notes = row_of(tmp_path, MIMIC | {"image_path": images})
    assert (row["frontal"], row.get("lateral")) == (images[0], None)
    assert notes.notes == {"assumed_views": {"annotation": {"images": 3}}}
    row, _ = row_of(tmp_path, MIMIC | {"image_path": images}, "dicom_id,ViewPosition\na,LATERAL\nb,PA\nc,AP\n")
    assert (row["frontal"], row.get("lateral"), row["view"]) == (images[1], images[0], "PA")


ABSENT = object()


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"id": None}, "id", "Input should be a valid string"),
        ({"id": True}, "id", "Input should be a valid string"),
        ({"id": "\ud800"}, "id", "surrogate"),
        ({"report": 0}, "report", "Input should be a valid string"),
        ({"report": "secret \udfff"}, "report", "surrogate"),
        ({"image_path": "a.png"}, "image_path", "Input should be a valid list"),
        ({"image_path": []}, "image_path", "should have at least 1 item"),
        ({"image_path": ["a", 1]}, "image_path", "Input should be a valid string"),
        ({"image_path": ["\ud800"]}, "image_path", "surrogate"),
        ({"id": "patient5"}, "subject_id", "the field is missing"),
        ({"id": "patient5", "subject_id": 5}, "study_id", "the field is missing"),
        ({"subject_id": 1.5}, "subject_id", "Input should be a valid string"),
        *(({name: ABSENT}, name, "Field required") for name in ("id", "report", "image_path")),
    ],
)
def test_problems(change: dict[str, Any], field: str, reason: str, tmp_path: Path) -> None:
    row, _ = row_of(tmp_path, {name: value for name, value in (IU | change).items() if value is not ABSENT})
    assert row["field"] == field and reason in row["reason"] and "secret" not in row["reason"]


def test_records_that_are_no_objects_and_blank_reports(tmp_path: Path) -> None:
    rows, notes = rows_of(tmp_path, {"val": [None, IU | {"report": " \n"}, [1]], "train": [], "test": ["text"]})
    listed = [(row["row"], row.get("kind")) for row in rows]
    assert listed == [("val[1]", None), ("val[0]", "bad"), ("val[2]", "bad"), ("test[0]", "bad")]
    assert notes.read["annotation"] == 4


def test_notes(tmp_path: Path) -> None:
    _, notes = row_of(tmp_path, IU | {"labels": [1], "\ud800": 0, "split": "test"})
    assert notes.notes.get("unknown_fields", {}) == {"annotation": {"\\ud800": 1, "labels": 1}}
