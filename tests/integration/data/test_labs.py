"""The labs and public collections of docs/data.md, by its own parameter files and scripts: each becomes a corpus."""

import contextlib
import io
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.config import Corpus
from pacer.config.params import load_profile
from pacer.core.errors import DataError
from pacer.data.schemas import read_records
from tests.support.cases import cases
from tests.support.corpus import built, lines_of
from tests.support.dicom import write_dicom

STUDIES = 60
REPORT = """EXAMINATION: CHEST {view}
INDICATION: {age} year old with cough.
COMPARISON: None.
FINDINGS: The tube ends 2.5 cm above the carina. There is opacity number {number}.
IMPRESSION: Opacity {number}, no effusion.
Electronically signed by J. Roe, MD"""


def picture(number: int) -> np.ndarray:
    """A picture of 12 bits that no other number has."""
    return np.random.default_rng(number).integers(0, 4096, (48, 40))


def jpeg(number: int) -> bytes:
    """The same as JPEG."""
    content = io.BytesIO()
    Image.fromarray((picture(number) >> 4).astype(np.uint8)).save(content, "JPEG", quality=90)
    return content.getvalue()


def hospital(folder: Path) -> None:
    """An Excel export, semicolons and days first, one column with the whole report, times of images, and DICOM."""
    (folder / "dicom").mkdir()
    rows = ["PatID;Accession;File;View;Date;Time;Report"]
    for number in range(STUDIES):
        fields: dict[str, object] = {"Modality": "CR"}
        if number in (5, 6):
            fields |= {"WindowCenter": 40, "WindowWidth": 400}
        if number == 7:
            fields["PixelSpacing"] = [0.2, 0.1]
        if number == 8:
            fields["PresentationIntentType"] = "FOR PROCESSING"
        if number in (11, 12):  # of P5 on the 12th, and of P6 on the 13th
            fields |= {"PatientID": "p05" if number == 11 else "P2", "StudyDate": "20200313"}
        write_dicom(folder / "dicom" / f"{number}.dcm", picture(number), **fields)
        report = "#NAME?" if number in (20, 21) else REPORT.format(view="PA", age=60, number=number)
        view = "AP ABDOMEN" if number == 30 else "PA"
        day = f"{1 + number % 28:02}.03.2020"
        rows.append(f'P{number // 2};A{number};{number}.dcm;{view};{day};08:30:10;"{report}"')
        if number % 3 == 0 and number != 30:
            write_dicom(folder / "dicom" / f"{number}L.dcm", picture(1000 + number), Modality="CR")
            rows.append(f'P{number // 2};A{number};{number}L.dcm;LATERAL;{day};08:31:05;"{report}"')
    (folder / "dicom" / "9.dcm").write_bytes((folder / "dicom" / "40.dcm").read_bytes())
    (folder / "export.csv").write_text("\r\n".join(rows) + "\r\n", encoding="utf-8-sig")


def hub(folder: Path) -> None:
    """Hugging Face's Parquet: shards of two splits, pictures inside, some studies with two."""
    rows = []
    for number in range(STUDIES):
        pictures = [{"bytes": jpeg(number), "path": None}]
        pictures += [{"bytes": jpeg(1000 + number), "path": "x.jpg"}] if number % 3 == 0 else []
        row = {
            "patient": f"P{number}",
            "exam": f"E{number}",
            "image": pictures,
            "view": ["PA", "LATERAL"][: len(pictures)],
        }
        row |= {"findings": f"Opacity {number} of 2.5 cm.", "impression": "#REF!" if number == 20 else None}
        rows.append(row)
    rows[9]["image"][0] = rows[50]["image"][0]  # of a patient of the test split
    rows[31]["view"] = ["AP ABDOMEN"]
    for number in (11, 13, 14):
        rows[number]["image"][0]["bytes"] = rows[number]["image"][0]["bytes"][:-300]
    rows[15]["findings"] = REPORT.format(view="PA", age=60, number=15)
    for name, part in (
        ("train-00000-of-00002", rows[:24]),
        ("train-00001-of-00002", rows[24:40]),
        ("validation-00000-of-00001", rows[40:46]),
        ("test-00000-of-00001", rows[46:]),
    ):
        pl.DataFrame(part, infer_schema_length=None).write_parquet(folder / f"{name}.parquet")


def half_mimic(folder: Path) -> None:
    """MIMIC-CXR of which 40 studies are downloaded, three of them with cut images."""
    metadata = ["dicom_id,subject_id,study_id,ViewPosition,StudyDate,StudyTime"]
    split = ["dicom_id,subject_id,study_id,split"]
    for number in range(STUDIES):
        subject, study, name = 10000000 + number, 50000000 + number, f"image{number}"
        metadata.append(f"{name},{subject},{study},PA,2180{1 + number % 12:02}05,83000.5")
        split.append(f"{name},{subject},{study},{('train', 'validate', 'test')[number % 3]}")
        place = f"p10/p{subject}/s{study}"
        path = folder / "files" / place / f"{name}.jpg"
        if number < 40:
            path.parent.mkdir(parents=True)
            content = jpeg(number if number != 9 else 10)
            path.write_bytes(content[:-300] if number in (11, 12, 13) else content)
        with zipfile.ZipFile(folder / "mimic-cxr-reports.zip", "a") as reports:
            reports.writestr(f"files/{place}.txt", REPORT.format(view="PA", age=60, number=number))
    (folder / "mimic-cxr-2.0.0-metadata.csv.gz").write_text("\n".join(metadata) + "\n")  # unpacked by a browser
    (folder / "mimic-cxr-2.0.0-split.csv.gz").write_text("\n".join(split) + "\n")


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
    seen = {"max_bad_rows": 100}  # of the labs
    audit = built(Corpus.model_validate(load_profile(folder / "mine.yaml").corpus.model_dump() | seen), folder / "out")
    problems = pl.read_csv(folder / "out" / "corpus" / "problems.csv", infer_schema=False)
    return lines_of(audit), read_records(folder / "out" / "corpus" / "records.parquet"), problems


@cases(__file__, "labs")
def test_a_labs_corpus(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    globals()[case["make"]](tmp_path)
    renamed = ()
    if case["make"] == "hub":
        with pytest.raises(DataError, match="contains images or lists; run this script") as refused:
            build(case["heading"], tmp_path)
        exec(str(refused.value).partition("\n")[2], {})
        renamed = "*.parquet", "*.files.parquet"
    lines, records, problems = build(case["heading"], tmp_path, *renamed)
    for name, words in case["lines"]:
        assert any(line.startswith(name) and words in detail for line, detail in lines.items()), (name, lines)
    assert records["study_id"].n_unique() == case["studies"]
    assert sorted(set(records["context"])) == case["contexts"]
    assert problems.filter(kind="doubted").height >= 2
    if case["make"] == "hospital":
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


def test_a_row_for_each_study_with_the_models_of_the_profile_small_gpu(tmp_path: Path) -> None:
    for number in range(4):
        Image.new("L", (16, 16), number).save(tmp_path / f"{number}.png")
    (tmp_path / "studies.csv").write_text(
        "patient,exam,frontal,lateral,findings,impression,previous_report\n"
        "p,a,0.png,1.png,Effusion.,Edema.,Clear.\nq,b,2.png,,Clear.,,\nr,c,3.png,,Effusion.,,\n"
    )
    _, records, _ = build("A row for each study", tmp_path, "studies.xlsx", "studies.csv")
    assert dict(records["context"].value_counts().iter_rows()) == {"sn": 3, "sw": 1, "mn": 1, "mw": 1}
    assert load_profile(tmp_path / "mine.yaml").backbones.vision.id == "microsoft/rad-dino"


def test_the_parameters_for_going_on_from_a_trained_model(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(code("Continuing to train a trained PACER", "yaml"))
    parent = load_profile(tmp_path / "mine.yaml").parent
    assert (
        parent.start == "trained" and parent.learning_rate < load_profile("configs/phantom.yaml").parent.learning_rate
    )


@cases(__file__, "collections")
def test_a_public_collection(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    for name, content in case["files"].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    for number, name in enumerate(case["images"]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (16, 16), number).save(tmp_path / name)
    imports, *parts = code("Public collections.", "python").split("\n\n")
    with contextlib.chdir(tmp_path):
        exec(f"{imports}\n{next(part for part in parts if case['name'] in part)}", {})
    lines, records, _ = build("Public collections.", tmp_path, "{}", case["columns"])
    assert lines["Bad rows or records"] == lines["Rows or records left out"] == "none"
    assert dict(records["context"].value_counts().iter_rows()) == case["contexts"]
    for record_id, report in case["reports"].items():
        assert records.filter(record_id=record_id)["report"][0] == report
