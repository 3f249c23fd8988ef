"""ReXrank's studies as a corpus and as cases: one choice of images, whatever the file leaves open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pacer.core.errors import DataError
from pacer.corpus.build_corpus import build_corpus
from pacer.corpus.rexrank import image_table, read_studies
from pacer.corpus.rows import Examination, Notes
from pacer.corpus.source.files import point_to_files
from pacer.corpus.studies import examinations
from pacer.params import Corpus, load_params
from pacer.records.schemas import read_records
from pacer.serving.case import Case
from pacer.serving.rexrank import cases_of

ROOT = Path(__file__).resolve().parents[2]
NAN = float("nan")
#: In the three forms that the benchmark's files have: MIMIC-CXR's, Open-I's, CheXpert Plus's.
MIMIC = {
    "image_path": ["/p1/s1/a.png", "/p1/s1/b.png", "/p1/s1/c.png"],
    "section_findings": "Small left effusion.",
    "section_impression": NAN,
    "frontal_lateral": ["lateral", "postero-anterior", "antero-posterior"],
    "split": "test",
    "subject_id": 1,
    "context": "Age:50-60.Gender:M.Indication: Cough. Comparison: None.",
    "key_image_path": "/p1/s1/c.png",
    "report": "Findings: Small left effusion. Impression: None.",
}
OPENI = {
    "key_image_path": "x/1.png",
    "image_path": ["x/0.png", "x/1.png"],
    "section_findings": "The lungs are clear.",
    "section_impression": "No acute disease.",
    "split": "test",
    "frontal_lateral": ["Lateral", "Frontal", "Lateral"],
    "context": "Indication: Chest pain: two weeks. Comparison: None.",
}
CHEXPERT = {
    "image_path": ["valid/v1.png", "valid/v2.png"],
    "context": "Age:77.0.Gender:F.Indication:nanComparison: None.",
    "section_findings": NAN,
    "section_impression": "Possible edema.",
    "frontal_lateral": ["Frontal", "Lateral"],
    "ap_pa": ["AP", NAN],
    "age": 77.0,
    "sex": "Female",
    "key_image_path": "valid/v1.png",
    "split": "test",
}


def write(folder: Path, studies: Any) -> Path:
    path = folder / "rexrank.json"
    path.write_text(studies if isinstance(studies, str) else json.dumps(studies))
    return path


def chosen(folder: Path, **changed: Any) -> tuple[str, str | None, str | None]:
    """Frontal and lateral image of Open-I's study with other fields, and the view."""
    given = {name: value for name, value in (OPENI | changed).items() if value is not None}
    [case] = cases_of(read_studies(write(folder, {"s": given})), Path())
    assert isinstance(case, Case)
    return str(case.frontal), None if case.lateral is None else str(case.lateral), case.view


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"frontal_lateral": ["Lateral", "Frontal"]}, ("x/1.png", "x/0.png", None)),
        ({"frontal_lateral": ["left lateral", "postero-anterior"]}, ("x/1.png", "x/0.png", "PA")),
        ({"frontal_lateral": ["Frontal", "Frontal"], "ap_pa": ["AP", "PA"]}, ("x/1.png", None, "PA")),
        ({}, ("x/1.png", None, None)),  # three views of two images say nothing; the key image is frontal
        ({"frontal_lateral": None}, ("x/1.png", None, None)),
        ({"frontal_lateral": ["Lateral", NAN]}, ("x/1.png", "x/0.png", None)),
        ({"frontal_lateral": ["Lateral", "Erect"]}, ("x/1.png", "x/0.png", None)),
        ({"frontal_lateral": ["Lateral", "Lateral"]}, ("x/1.png", "x/0.png", None)),  # none is frontal but by the key
        ({"frontal_lateral": ["Frontal", "Lateral"]}, ("x/0.png", "x/1.png", None)),  # the stated view counts
        ({"frontal_lateral": ["antero-posterior", NAN]}, ("x/0.png", None, "AP")),
        ({"frontal_lateral": ["Lateral", "Frontal"], "key_image_path": None}, ("x/1.png", "x/0.png", None)),
    ],
)
def test_the_stated_view_decides_and_else_the_key_image(tmp_path, changed, expected):
    assert chosen(tmp_path, **changed) == expected


@pytest.mark.parametrize(
    ("context", "indication"),
    [
        ("Age:50-60.Gender:M.Indication: Cough. Comparison: None.", "Cough."),
        ("Age:77.0.Gender:F.Indication:nanComparison: None.", "nan"),
        ("Age:None.Gender:None.Indication: Fall.", "Fall."),
        ("Indication: History: two weeks. Comparison: x", "History: two weeks."),
        ("<context>Age:>=90.Gender:F.Comparison: None.</context>", None),
        ("shortness of breath", "shortness of breath"),
        ("", None),
    ],
)
def test_the_indication_is_taken_from_the_context(tmp_path, context, indication):
    assert read_studies(write(tmp_path, {"s": OPENI | {"context": context}}))["s"].indication == indication


def corpus(folder: Path, studies: dict[str, Any], columns: dict[str, str] | None = None) -> dict[str, Any]:
    base = load_params(ROOT / "configs" / "phantom.yaml").corpus.model_dump()
    given = {"source": "files", "format": "table", "root": str(folder), "images": "images"}
    config = Corpus.model_validate(base | given | {"table": {"file": "rexrank.json", "columns": columns or {}}})
    write(folder, studies)
    point_to_files(config, folder / "source")
    return build_corpus(config, folder / "source", folder / "corpus")


def test_the_three_forms_become_records(tmp_path):
    studies = {"50": MIMIC, "CXR1_IM-0001": OPENI, "patient1_study1": CHEXPERT}
    for study in studies.values():
        for path in study["image_path"]:
            image = tmp_path / "images" / path.lstrip("/")
            image.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (16, 16)).save(image)
    audit = corpus(tmp_path, studies)
    records = read_records(tmp_path / "corpus" / "records.parquet")
    columns = ("record_id", "subject_id", "view", "frontal", "lateral", "report_raw", "indication", "sections")
    assert sorted(records.select(columns).rows(), key=str) == [
        ("mn-50", "1", "PA", "p1/s1/b.png", "p1/s1/a.png", "Small left effusion.", "Cough.", "findings"),
        (
            "mn-patient1_study1",
            "patient1_study1",
            "AP",
            "valid/v1.png",
            "valid/v2.png",
            "Possible edema.",
            None,
            "impression",
        ),
        ("sn-50", "1", "PA", "p1/s1/b.png", None, "Small left effusion.", "Cough.", "findings"),
        (
            "sn-CXR1_IM-0001",
            "CXR1_IM-0001",
            "other",
            "x/1.png",
            None,
            "The lungs are clear. No acute disease.",
            "Chest pain: two weeks.",
            "findings+impression",
        ),
        ("sn-patient1_study1", "patient1_study1", "AP", "valid/v1.png", None, "Possible edema.", None, "impression"),
    ]
    assert audit["rows"]["read"] == {"table": 7} and audit["rows"]["used"] == 5
    assert audit["rows"]["left_out"] == 2  # a further frontal image, and the image of which no view is known


def test_names_of_columns_are_refused(tmp_path):
    (tmp_path / "images").mkdir()
    with pytest.raises(DataError, match=r"set corpus\.table\.columns to \{\}"):
        corpus(tmp_path, {"s": OPENI}, {"subject": "subject_id"})


@pytest.mark.parametrize(
    ("studies", "problem"),
    [
        ("[]", "expected an object of studies by id, as ReXrank gives them, got a list of 0"),
        ("{}", "got an object"),
        ({"s": 1}, "study s: expected an object, got 1"),
        ({"s": OPENI | {"image_path": "x/0.png"}}, "study s: image_path must be a list, got text of 7 characters"),
        ({"s": OPENI | {"image_path": []}}, "image_path must be a list of paths, at least one"),
        ({"s": OPENI | {"image_path": ["x/1.png", 3]}}, "image_path must be a list of paths, at least one"),
        ({"s": OPENI | {"key_image_path": "y.png"}}, "key_image_path is none of image_path"),
        ({"s": OPENI | {"context": 3}}, "context must be text, got 3"),
        ({"s": OPENI | {"section_findings": ["x"]}}, "section_findings must be text, got a list of 1"),
        ({"s": OPENI | {"report": "\ud800"}}, "study s: half of a surrogate pair"),
        ({"\ud800": OPENI}, "half of a surrogate pair is in the id"),
        ({"s": OPENI | {"seconds": float("inf")}}, "study s: it holds a number that is infinite"),
    ],
)
def test_a_file_of_another_form_is_one_clear_error(tmp_path, studies, problem):
    with pytest.raises(DataError, match=problem):
        read_studies(write(tmp_path, studies))


VIEWS = st.sampled_from(["Frontal", "Lateral", "antero-posterior", "postero-anterior", "left lateral", "Erect", NAN])


@given(st.data())
def test_corpus_and_cases_take_the_same_images(tmp_path_factory, data):
    count = data.draw(st.integers(1, 4))
    images = [f"{number}.png" for number in range(count)]
    study = OPENI | {
        "image_path": images,
        "key_image_path": data.draw(st.sampled_from(images)),
        "frontal_lateral": data.draw(st.lists(VIEWS, min_size=count, max_size=count + 1)),
    }
    path = write(tmp_path_factory.getbasetemp(), {"s": study})
    config = load_params(ROOT / "configs" / "phantom.yaml").corpus
    rows = list(examinations(image_table(path, Notes()), str(path), "table", config, Notes()))
    [exam] = [row for row in rows if isinstance(row, Examination)]  # a key image is enough for one
    assert exam.rows + sum(row.rows for row in rows if row is not exam) == count
    [case] = cases_of(read_studies(path), Path())
    assert isinstance(case, Case)
    lateral = None if case.lateral is None else str(case.lateral)
    assert (str(case.frontal), lateral, case.view or "other") == (exam.frontal, exam.lateral, exam.view)
