"""Open-I as it is distributed, and the labs and public collections of docs/data.md, by its own
files and scripts."""

import contextlib
import gzip
import io
import re
import shutil
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.config import Corpus
from pacer.config.params import load_profile
from pacer.core.errors import DataError
from pacer.core.schemas import read_records
from pacer.corpus.account import Notes
from pacer.corpus.readers.openi import read
from pacer.corpus.records import seeded_split
from pacer.corpus.source import Source
from tests.support.cases import cases, listed_cases
from tests.support.corpus import BASE, built, lines_of, read_rows
from tests.support.dicom import write_dicom
from tests.support.page_code import page_code

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
    """An Excel export, semicolons and days first, one column with the whole report, times of
    images, and DICOM."""
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
        row |= {
            "findings": f"Opacity {number} of 2.5 cm.",
            "impression": "#REF!" if number == 20 else None,
        }
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
    (folder / "mimic-cxr-2.0.0-metadata.csv.gz").write_text(
        "\n".join(metadata) + "\n"
    )  # unpacked by a browser
    (folder / "mimic-cxr-2.0.0-split.csv.gz").write_text("\n".join(split) + "\n")


DOCS = Path(__file__).resolve().parents[3] / "docs" / "data.md"


def code(heading: str, language: str, page: Path = DOCS) -> str:
    """The first block of code in a language below a bold heading of a page."""
    below = page.read_text(encoding="utf-8").partition(f"**{heading}**")[2]
    return re.search(rf"```{language}\n(.*?)```", below, re.DOTALL)[1]


def build(
    heading: str, folder: Path, *renamed: str
) -> tuple[dict[str, str], pl.DataFrame, pl.DataFrame]:
    """The lines of the audit, the records and the list of problems of a corpus in ``folder``;
    ``renamed``: a name in the document's parameters, and another for it."""
    given = re.sub(
        r"root: [^\s,}]+", f"root: {folder}", code(heading, "yaml").replace(*renamed or ("", ""))
    )
    (folder / "mine.yaml").write_text(given)
    seen = {"max_bad_rows": 100}  # of the labs
    audit = built(
        Corpus.model_validate(load_profile(folder / "mine.yaml").corpus.model_dump() | seen),
        folder / "out",
    )
    problems = pl.read_csv(folder / "out" / "corpus" / "problems.csv", infer_schema=False)
    return lines_of(audit), read_records(folder / "out" / "corpus" / "records.parquet"), problems


@cases(__file__, "labs")
def test_a_labs_corpus(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    globals()[case["make"]](tmp_path)
    if case["make"] == "hub":
        with pytest.raises(DataError, match=r"image: a list, .*; if the files are splits, take"):
            build(case["heading"], tmp_path, "studies.parquet", '"*.parquet"')
        with contextlib.chdir(tmp_path):
            exec(page_code()[case["heading"]], {})
    lines, records, problems = build(case["heading"], tmp_path)
    for name, words in case["lines"]:
        assert any(line.startswith(name) and words in detail for line, detail in lines.items()), (
            name,
            lines,
        )
    assert records["study_id"].n_unique() == case["studies"]
    assert sorted(set(records["context"])) == case["contexts"]
    assert problems.filter(kind="doubted").height >= 2
    if case["make"] == "hospital":
        signatures = next(detail for line, detail in lines.items() if "signature" in line)
        exec(signatures.partition("; in polars: ")[2], {})
        table = "export.csv", "export.mended.parquet"
        lines, records, _ = build(case["heading"], tmp_path, *table)
        assert not any("signature" in line for line in lines)
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
    _, records, _ = build("Try it in three minutes first", tmp_path)
    assert records.height == 20 and set(records["report"]) == {"a tube 2.5 cm above ."}
    params = load_profile(tmp_path / "mine.yaml")
    assert params.anchors.llm.provider == "none" and params.warmup.updates == 4
    assert {model.provider for model in (params.backbones.vision, params.backbones.language)} == {
        "bundled"
    }


def test_a_row_for_each_study_with_the_models_of_the_profile_small_gpu(tmp_path: Path) -> None:
    for number in range(4):
        Image.new("L", (16, 16), number).save(tmp_path / f"{number}.png")
    (tmp_path / "studies.csv").write_text(
        "patient,exam,frontal,lateral,findings,impression,previous_report\n"
        "p,a,0.png,1.png,Effusion.,Edema.,Clear.\nq,b,2.png,,Clear.,,\nr,c,3.png,,Effusion.,,\n"
    )
    _, records, _ = build("A row for each study", tmp_path, "studies.xlsx", "studies.csv")
    assert dict(records["context"].value_counts().iter_rows()) == {
        "sn": 3,
        "sw": 1,
        "mn": 1,
        "mw": 1,
    }
    assert load_profile(tmp_path / "mine.yaml").backbones.vision.id == "microsoft/rad-dino"


def test_the_parameters_for_going_on_from_a_trained_model(tmp_path: Path) -> None:
    page = DOCS.with_name("training.md")
    (tmp_path / "mine.yaml").write_text(code("To fine-tune an existing PACER model", "yaml", page))
    parent = load_profile(tmp_path / "mine.yaml").parent
    assert (
        parent.start == "trained"
        and parent.learning_rate < load_profile("configs/phantom.yaml").parent.learning_rate
    )


@cases(__file__, "collections")
def test_a_public_collection(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    for name, content in case["files"].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    for number, name in enumerate(case["images"]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (16, 16), number).save(tmp_path / name)
    with contextlib.chdir(tmp_path):
        exec(page_code()[case["name"]], {})
    lines, records, _ = build("Public collections.", tmp_path, "{}", case["columns"])
    assert lines["Bad rows or records"] == lines["Rows or records left out"] == "none"
    assert dict(records["context"].value_counts().iter_rows()) == case["contexts"]
    for record_id, report in case["reports"].items():
        assert records.filter(record_id=record_id)["report"][0] == report


FRONTAL, LATERAL = "CXR1_1_IM-0001-4001", "CXR1_1_IM-0001-3001"
VIEWS = (
    "image,view\n1_IM-0001-4001,PA\n1_IM-0001-3001,Lateral\n1_IM-0001-5001,AP\n1_IM-0001-6001,LL\n"
)
TEXTS = {
    "FINDINGS": "Heart < normal & clear.",
    "IMPRESSION": "No disease.",
    "INDICATION": "Cough",
    "COMPARISON": "Prior film.",
}


def report(uid: str = "CXR1", images: tuple[str, ...] = (LATERAL, FRONTAL), **texts: str) -> bytes:
    sections = "".join(
        f"<AbstractText Label={quoteattr(k)}>{escape(v)}</AbstractText>"
        for k, v in (texts or TEXTS).items()
    )
    named = "".join(
        f"<parentImage id={quoteattr(image)}><caption/></parentImage>" for image in images
    )
    return (
        f'<?xml version="1.0" encoding="utf-8"?><eCitation><uId '
        f"id={quoteattr(uid)}/><MedlineCitation><Article>"
        f"<Abstract>{sections}</Abstract></Article></MedlineCitation>{named}</eCitation>"
    ).encode()


@dataclass
class OpenI:
    """A small distribution; ``config`` holds values of ``corpus.openi``."""

    root: Path
    files: dict[str, Path] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=lambda: {"split": None})
    notes: Notes = field(default_factory=Notes)

    def write(self, role: str, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.files[role] = path
        return path

    def folder(self, *reports: bytes) -> Self:
        for number, content in enumerate(reports, start=1):
            self.write("reports", f"ecgen-radiology/{number}.xml", content)
        self.files["reports"] = self.root / "ecgen-radiology"
        return self

    def archive(self) -> Self:
        """The folder as a tar."""
        folder = self.files["reports"]
        self.files["reports"] = self.root / "NLMCXR_reports.tgz"
        made = shutil.make_archive(
            str(self.root / "NLMCXR_reports"), "gztar", self.root, folder.name
        )
        Path(made).rename(self.files["reports"])
        return self

    def rows(self) -> list[dict[str, Any]]:
        values = {"reports": "-", "projections": "-"} | self.config
        files = {"source": "files", "root": str(self.root), "contexts": ["sn", "mn"]}
        config = Corpus.model_validate(BASE | files | {"format": "openi", "openi": values})
        rows, self.notes = read_rows(read, Source(self.root / "images", self.files, None), config)
        assert sum(row["rows"] for row in rows) == sum(self.notes.read.values())
        return rows

    def row(self) -> dict[str, Any]:
        (row,) = self.rows()
        return row


@pytest.fixture
def distribution(tmp_path: Path) -> Self:
    made = OpenI(tmp_path)
    (tmp_path / "images").mkdir()
    made.write("projections", "views.csv", VIEWS)
    return made


def test_a_report(distribution: OpenI) -> None:
    (expected,) = listed_cases(__file__, "report")[0].values
    place = {
        "file": str(distribution.root / "ecgen-radiology" / "1.xml"),
        "split": seeded_split("CXR1", 7, 0.1, 0.2),
    }
    assert distribution.folder(report()).row() == expected | place
    assert distribution.notes.topics == {}


def test_archive_and_folder_agree(distribution: OpenI) -> None:
    distribution.folder(report(), report("CXR2", images=()), b"<broken")
    for name in ("._1.xml", "notes.txt"):
        (distribution.files["reports"] / name).write_bytes(b"no report")
    rows = distribution.rows()
    assert [row["row"] for row in rows] == [""] * 3 and distribution.notes.read == {"reports": 3}
    packed = distribution.archive().rows()
    assert [row | {"file": None} for row in packed] == [row | {"file": None} for row in rows]


def test_texts(distribution: OpenI) -> None:
    content = report(Findings=" a\n b ", IMPRESSION="  ", indication="x").replace(
        b"a\n", b"a<i>i</i>\n"
    )
    twice = (
        b'<AbstractText Label="FINDINGS"> </AbstractText><AbstractText '
        b'Label="FINDINGS">c</AbstractText>'
    )
    twice += b"<AbstractText>no label</AbstractText></Abstract>"
    row = distribution.folder(content.replace(b"</Abstract>", twice)).row()
    assert (row["findings"], row.get("impression"), row["indication"]) == (" ai\n b  c", None, "x")


@pytest.mark.parametrize(
    ("content", "field", "reason"),
    [
        (b"<a>secret &undefined;</a>", "-", "not valid XML"),
        (report("secret"), "uId/@id", "expected an id such as CXR1 or 1"),
        (report("CXR\u0661"), "uId/@id", "expected an id such as CXR1 or 1"),
        (report().replace(b"utf-8", b"klingon"), "-", "not valid XML"),
    ],
)
def test_problems(content: bytes, field: str, reason: str, distribution: OpenI) -> None:
    row = distribution.folder(content).row()
    assert row["field"] == field and reason in row["reason"] and "secret" not in row["reason"]


@cases(__file__, "files")
def test_image_files_of_every_distribution(
    kind: str, case: dict[str, Any], distribution: OpenI
) -> None:
    for name in case["there"]:
        distribution.write("image", f"images/{name}", b"")
    row = distribution.folder(report()).row()
    assert (row["frontal"], row.get("lateral")) == (case["frontal"], f"{LATERAL}.png")


@cases(__file__, "images")
def test_choice_of_images(kind: str, case: dict[str, Any], distribution: OpenI) -> None:
    row = distribution.folder(report(images=tuple(case["images"]))).row()
    unknown = {"views.csv": {"images": case["unknown"]}} if case["unknown"] else {}
    assert distribution.notes.topics.get("unknown_views", {}) == unknown
    assert row.get("reason") == case.get("reason")
    assert {name: row.get(name) for name in case.get("study", {})} == case.get("study", {})


def test_r2gen_split(distribution: OpenI) -> None:
    distribution.config["split"] = "r2gen"
    rows = distribution.folder(report(), report("CXR2"), report("CXR3999999")).rows()
    assert [row.get("reason", row.get("split")) for row in rows] == [
        "train",
        "test",
        "not in the split",
    ]


@pytest.mark.parametrize(
    "content", [None, b"", b"<html>log in first</html>", gzip.compress(b"x" * 5000)]
)
def test_a_tgz_that_is_none_or_cut_off(distribution: OpenI, content: bytes | None) -> None:
    distribution.folder(*(report(f"CXR{n}") for n in range(1, 60)))
    whole = distribution.archive().files["reports"].read_bytes()
    distribution.write(
        "reports", "NLMCXR_reports.tgz", whole[:-400] if content is None else content
    )
    with pytest.raises(
        DataError, match=r"NLMCXR_reports\.tgz cannot be read as a folder, a zip or a tar archive"
    ) as error:
        distribution.rows()
    assert "\n" not in str(error.value)


def test_kaggles_tables_are_refused_as_reports_and_read_as_a_table(tmp_path: Path) -> None:
    reports = tmp_path / "indiana_reports.csv"
    reports.write_text("uid,image,findings,impression\n1,Xray Chest,Clear.,\n2,Xray,,Normal.\n")
    (tmp_path / "indiana_projections.csv").write_text(
        "uid,filename,projection\n1,1.png,Frontal\n1,1L.png,Lateral\n2,2.png,Frontal\n"
    )
    (tmp_path / "images_normalized").mkdir()
    for number, name in enumerate(("1.png", "1L.png", "2.png")):
        Image.new("L", (16, 16), number).save(tmp_path / "images_normalized" / name)
    openi = {"reports": reports.name, "projections": "indiana_projections.csv", "split": None}
    files = {"source": "files", "root": str(tmp_path), "contexts": ["sn"], "format": "openi"}
    with pytest.raises(DataError, match=r"takes NLMCXR_reports.tgz.*reports.csv is a table; join"):
        built(Corpus.model_validate(BASE | files | {"openi": openi}), tmp_path / "out")
    with contextlib.chdir(tmp_path):
        exec(page_code()["Kaggle's two tables of Open-I"], {})
    _, records, _ = build("Kaggle's two tables of Open-I", tmp_path)
    assert dict(records["context"].value_counts().iter_rows()) == {"sn": 2, "mn": 1}
    assert set(records["report"]) == {"clear .", "normal ."}
