"""Corpora as three labs hand them over, 60 studies each, with one fault of each kind planted."""

import io
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

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
