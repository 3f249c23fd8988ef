"""The labs and public collections of docs/data.md, by its own parameter files and scripts: each becomes a corpus."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image

from pacer.config import Corpus
from pacer.config.profiles import load_profile
from pacer.core.errors import DataError
from pacer.data.schemas import read_records
from tests.support import labs
from tests.support.corpus import built, lines_of

DOCS = Path(__file__).resolve().parents[3] / "docs" / "data.md"


def code(heading: str, language: str) -> str:
    """The first block of code in a language below a bold heading of the document."""
    below = DOCS.read_text(encoding="utf-8").partition(f"**{heading}**")[2]
    return re.search(rf"```{language}\n(.*?)```", below, re.DOTALL)[1]


def build(heading: str, folder: Path, *renamed: str) -> tuple[dict[str, str], pl.DataFrame, pl.DataFrame]:
    """The lines of the audit, the records and the list of problems of a corpus in ``folder``; ``renamed``: a name in
    the document's parameters, and another for it."""
    given = re.sub(r"root: [^\s,}]+", f"root: {folder}", code(heading, "yaml").replace(*renamed or ("", "")))
    (folder / "mine.yaml").write_text(given)
    audit = built(Corpus.model_validate(load_profile(folder / "mine.yaml").corpus.model_dump()), folder / "out")
    problems = pl.read_csv(folder / "out" / "corpus" / "problems.csv", infer_schema=False)
    return lines_of(audit), read_records(folder / "out" / "corpus" / "records.parquet"), problems


@pytest.mark.parametrize(
    ("heading", "make", "faults", "studies"),
    [
        (
            "A hospital's export",
            labs.hospital,
            {
                "Whole reports": "a signature, stamp, phone number or name, which is left out (first: A0)",
                "Bad rows": "an error of a spreadsheet",
                "Rows or records left out": "1 × unknown view",
                "Images whose DICOM": "2 × WindowCenter and WindowWidth: not for these values",
                "Images used more than once": "1 in two patients",
            },
            57,
        ),
        (
            "Hugging Face's Parquet",
            labs.hub,
            {
                "Texts with headings": "1 × EXAMINATION (first: E15)",
                "Texts with a signature": "1 × a signature (first: E15)",
                "Images missing or unreadable": "3 unreadable",
                "Images used more than once": "1 in two patients, 1 in two splits",
                "Rows or records left out": "1 × unknown view",
                "Bad rows": "an error of a spreadsheet",
            },
            55,
        ),
        (
            "A half-downloaded MIMIC-CXR",
            labs.half_mimic,
            {
                "Images missing or unreadable": "20 missing, 3 unreadable",
                "Images used more than once": "1 in two patients, 1 in two splits",
                "Targets in which the cleaner": "such as 2.5 of 50000000",
            },
            37,
        ),
    ],
)
def test_a_labs_corpus(
    heading: str, make: Callable[[Path], None], faults: dict[str, str], studies: int, tmp_path: Path
) -> None:
    make(tmp_path)
    renamed = ()
    if make is labs.hub:
        with pytest.raises(DataError, match="holds pictures or lists: run this Python") as refused:
            build(heading, tmp_path)
        exec(str(refused.value).partition("\n")[2], {})
        renamed = "*.parquet", "*.files.parquet"
    lines, records, problems = build(heading, tmp_path, *renamed)
    for name, words in faults.items():
        assert any(line.startswith(name) and words in detail for line, detail in lines.items()), (name, lines)
    assert records["study_id"].n_unique() == studies
    assert problems.filter(kind="doubted").height >= 2
    if make is labs.hospital:
        for note in ("PixelSpacing is not square", "PresentationIntentType is FOR PROCESSING"):
            assert any(f"1 × {note}" in detail for detail in lines.values())
        assert set(records["context"]) == {"sn", "sw", "mn", "mw"}
        assert records["report"].str.contains("2.5 cm above the carina", literal=True).all()
        assert not records["report"].str.contains("roe|indication|examination").any()
        assert records["indication"].drop_nulls().str.contains("60 year old").all()


def test_a_table_with_the_models_of_the_profile_micro(tmp_path: Path) -> None:
    """The first table of the document, by the keys that take it through every stage."""
    (tmp_path / "radiographs" / "71").mkdir(parents=True)
    Image.new("L", (16, 16)).save(tmp_path / "radiographs" / "71" / "front.png")
    rows = [f"{n},7{n},71/front.png,PA,2019-05-06,A tube 2.5 cm above.,,cough" for n in range(20)]
    header = re.search(r"studies\.csv: (\S+)", DOCS.read_text(encoding="utf-8"))[1]
    (tmp_path / "studies.csv").write_text("\n".join([header, *rows]))
    _, records, _ = build("Every stage in minutes", tmp_path)
    assert records.height == 20 and set(records["report"]) == {"a tube 2.5 cm above ."}
    params = load_profile(tmp_path / "mine.yaml")
    assert params.anchors.llm.provider == "none" and params.warmup.updates == 4
    assert {model.provider for model in (params.backbones.vision, params.backbones.language)} == {"bundled"}


def test_the_parameters_for_going_on_from_a_trained_model(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(code("Going on from a trained PACER", "yaml"))
    parent = load_profile(tmp_path / "mine.yaml").parent
    assert (
        parent.start == "trained" and parent.learning_rate < load_profile("configs/phantom.yaml").parent.learning_rate
    )


def chexpert_plus(folder: Path) -> list[str]:
    rows = [
        {"path_to_image": f"train/patient{n // 3}/study{n % 3}/view1_frontal.jpg", "frontal_lateral": "Frontal",
         "ap_pa": "AP",
         "deid_patient_id": f"patient{n // 3}", "patient_report_date_order": n % 3 + 1, "report": "x", "split": "train",
         "section_findings": None if n == 4 else f"Clear {n}.", "section_impression": "Normal.",
         "section_clinical_history": "Cough."}
        for n in range(9)
    ]  # fmt: skip
    lateral = {"path_to_image": "train/patient0/study0/view2_lateral.jpg", "frontal_lateral": "Lateral", "ap_pa": None}
    pl.DataFrame([*rows, rows[0] | lateral]).write_csv(folder / "df_chexpert_plus_240401.csv")
    return [f"PNG/{row['path_to_image']}".replace(".jpg", ".png") for row in [*rows, lateral]]


def rexgradient(folder: Path) -> list[str]:
    (folder / "metadata").mkdir()
    names = []
    for split, numbers in (("train", range(6)), ("valid", range(6, 8)), ("test", range(8, 10))):
        studies: dict[str, Any] = {}
        for n in numbers:
            images = [f"../deid_png/P{n}/{n}.png", f"../deid_png/P{n}/{n}L.png"][: 1 + n % 2]
            names += [name.removeprefix("../") for name in images]
            studies[f"study{n}"] = {
                "PatientID": f"P{n}", "PatientAge": "060Y", "ImagePath": images, "Indication": "Cough.",
                "ImageViewPosition": ["POSTERO_ANTERIOR", "LATERAL"][: len(images)],
                "Comparison": "None.", "Findings": f"Clear {n}.", "Impression": "Normal.",
            }  # fmt: skip
        (folder / "metadata" / f"{split}_metadata_view_position.json").write_text(json.dumps(studies))
    return names


def padchest_gr(folder: Path) -> list[str]:
    reports, rows = [], []
    for n in range(10):
        findings = [{"sentence_en": f"Heart is normal {n}", "abnormal": False}, {"sentence_en": "No effusion."}]
        reports.append({"StudyID": f"S{n}", "ImageID": f"{n}.png", "findings": findings})
        shared = {
            "StudyID": f"S{n}",
            "ImageID": f"{n}.png",
            "PatientID": f"P{n // 2}",
            "StudyDate_DICOM": f"2015010{n % 2 + 1}",
        }
        rows += [
            shared | {"label": label, "split": ("train", "validation", "test")[n // 2 % 3]} for label in ("normal", "x")
        ]
    (folder / "grounded_reports_20240819.json").write_text(json.dumps(reports))
    pl.DataFrame(rows).write_csv(folder / "master_table.csv")
    return [f"Padchest_GR_files/{n}.png" for n in range(10)]


@pytest.mark.parametrize(
    ("heading", "make", "contexts", "example"),
    [
        ("CheXpert Plus", chexpert_plus, {"sn": 9, "sw": 6, "mn": 1}, "sn-patient1/study1"),
        ("ReXGradient-160K", rexgradient, {"sn": 10, "mn": 5}, "mn-study3"),
        ("PadChest-GR", padchest_gr, {"sn": 10, "sw": 5}, "sw-S3"),
    ],
)
def test_a_public_collection(
    heading: str, make: Callable[[Path], list[str]], contexts: dict[str, int], example: str, tmp_path: Path,
) -> None:  # fmt: skip
    for number, name in enumerate(make(tmp_path)):
        os.makedirs((tmp_path / name).parent, exist_ok=True)
        Image.new("L", (16, 16), number).save(tmp_path / name)
    with contextlib.chdir(tmp_path):
        exec(code(heading, "python"), {})
    lines, records, _ = build(heading, tmp_path)
    assert lines["Bad rows or records"] == lines["Rows or records left out"] == "none"
    assert dict(records["context"].value_counts().iter_rows()) == contexts
    report = records.filter(record_id=example)["report"][0]
    expected = {
        "sn-patient1/study1": "normal .",
        "mn-study3": "clear 3 . normal .",
        "sw-S3": "heart is normal 3 . no effusion .",
    }
    assert report == expected[example]
