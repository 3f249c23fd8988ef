"""MIMIC-CXR from PhysioNet's own files; all texts, ids and images are invented."""

import gzip
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.core.schemas import PRIOR_SCHEMA, read_records, read_table
from pacer.corpus.readers.mimic_cxr import read_original_findings
from tests.support.cases import cases, listed_cases
from tests.support.corpus import built
from tests.support.profiles import profile

BASE = profile("mimic_cxr").corpus.model_dump()
SECRET = "Zephyrine opacity"  # a report text that no message may hold


class Tree:
    """Images, reports and tables as PhysioNet ships them."""

    def __init__(self, root: Path):
        self.root, self.settings = root, {"root": str(root), "mimic_cxr": dict(BASE["mimic_cxr"])}
        self.metadata: list[dict[str, Any]] = []
        self.split: list[dict[str, Any]] = []
        self.reports: dict[str, str] = {}

    def add(
        self,
        study: int,
        views: str = "PA",
        *,
        subject: int = 10000032,
        date: Any = 21800506,
        time: Any = 83045.5,
        report: str | None = "",
        split: str = "train",
    ) -> None:
        """A study with an image for each of the views; a report that says which study it is."""
        for number, view in enumerate(views.split(",")):
            dicom = f"{study}-{number}"
            ids = {"dicom_id": dicom, "subject_id": subject, "study_id": study}
            self.metadata.append(
                ids | {"ViewPosition": view, "Rows": 4, "StudyDate": date, "StudyTime": time}
            )
            self.split.append(
                {"dicom_id": dicom, "study_id": study, "subject_id": subject, "split": split}
            )
            image = self.root / "files" / f"p{str(subject)[:2]}/p{subject}/s{study}/{dicom}.jpg"
            image.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (16, 16), number).save(image)
        if report is not None:
            text = (
                report
                or f" FINAL REPORT\n INDICATION:  Cough.\n\n FINDINGS: \n \n {SECRET} {study}.\n"
            )
            self.reports[f"files/p{str(subject)[:2]}/p{subject}/s{study}.txt"] = text

    def write(self) -> None:
        for name, rows in (("metadata", self.metadata), ("split", self.split)):
            table = pl.DataFrame(rows, infer_schema_length=None).write_csv().encode()
            (self.root / BASE["mimic_cxr"][name]).write_bytes(gzip.compress(table))
        with zipfile.ZipFile(self.root / "mimic-cxr-reports.zip", "w") as archive:
            for name, text in self.reports.items():
                archive.writestr(name, text)

    def config(self) -> Corpus:
        return Corpus.model_validate(BASE | self.settings)

    def build(self) -> dict[str, Any]:
        """The audit; no text of a report is in it or in the list of problems."""
        self.write()
        audit = built(self.config(), self.root)
        assert (
            "Zephyrine"
            not in json.dumps(audit) + (self.root / "corpus" / "problems.csv").read_text()
        )
        return audit

    def records(self) -> dict[str, dict[str, Any]]:
        return {
            row["record_id"]: row
            for row in read_records(self.root / "corpus" / "records.parquet").to_dicts()
        }

    def problems(self) -> list[tuple]:
        table = pl.read_csv(self.root / "corpus" / "problems.csv", infer_schema=False)
        name = pl.col("file").str.split("/").list.last()
        return table.select("kind", name, "row", "field", "reason", "rows").rows()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@cases(__file__, "records")
def test_every_field_of_a_record(kind: str, case: dict[str, Any], tree: Tree) -> None:
    tree.add(50000001, date=21800505)
    report = (
        " FINAL REPORT\n INDICATION: Cough.\n HISTORY: COPD.\n FINDINGS: 1.2 cm nodule.\n "
        "IMPRESSION: Zephyrine.\n"
    )
    tree.add(50000002, "PA,LL", report=report, split="validate")
    tree.settings["original_references"] = BASE["mimic_cxr"]["reports"]
    tree.build()
    assert tree.records()[case["record_id"]] == case


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("views", "chosen"), listed_cases(__file__, "views"))
def test_which_of_several_images_are_used(
    tree: Tree, views: list[str], chosen: list, full: bool
) -> None:
    """By the position, or where it is empty by the view in full."""
    tree.add(50000001, ",".join(views))
    for row in tree.metadata if full else ():
        row |= {"ViewPosition": None, "ViewCodeSequence_CodeMeaning": row["ViewPosition"]}
    tree.build()
    record = list(tree.records().values())[-1]
    names = [
        record[name] and int(record[name].rpartition("-")[2][0]) for name in ("frontal", "lateral")
    ]
    assert [*names, record["view"]] == chosen


def test_tables_and_reports_that_do_not_fit_each_other(tree: Tree) -> None:
    tree.add(50000001)
    tree.add(50000002, "PA,LL")  # one of its images has no split
    tree.add(50000003, "PA,LL")  # none has
    tree.add(50000004)  # not in the metadata
    tree.add(50000005, "PA,LL")  # in two splits
    del tree.metadata[5]
    tree.split = [
        row
        for row in tree.split
        if row["dicom_id"] not in ("50000002-1", "50000003-0", "50000003-1")
    ]
    tree.split[-1]["split"] = "test"
    tree.build()
    listed = (tree.root / "corpus" / "problems.csv").read_text()
    assert (
        f"{tree.root}/mimic-cxr-reports.zip/files/p10/p10000032/s50000004.txt,,50000004,," in listed
    )
    metadata = "mimic-cxr-2.0.0-metadata.csv.gz"
    assert tree.problems() == [
        ("left out", "s50000004.txt", None, None, "its study is not in the metadata", "1"),
        ("left out", metadata, "line 4", None, "the image is not in the split table", "1"),
        ("left out", metadata, "line 5", None, "none of its images is in the split table", "2"),
        ("left out", metadata, "line 7", None, "its images are in two splits", "2"),
    ]
    assert list(tree.records()) == ["sn-50000001", "sn-50000002"]


@pytest.mark.parametrize(("times", "later", "gap"), listed_cases(__file__, "times"))
def test_the_time_of_a_study_is_that_of_its_first_image(
    tree: Tree, times: list, later: Any, gap: int
) -> None:
    tree.add(50000001, "PA,LL")
    for row, time in zip(tree.metadata, times, strict=True):
        row["StudyTime"] = time
    tree.add(50000002, time=later)
    tree.build()
    prior = read_table(tree.root / "corpus" / "priors.parquet", PRIOR_SCHEMA).row(0, named=True)
    assert (prior["study_id"], prior["gap_days"] * 86400) == ("50000002", pytest.approx(gap))


@cases(__file__, "previous")
def test_rules_of_the_previous_study(kind: str, case: dict[str, Any], tree: Tree) -> None:
    texts = {"empty": " IMPRESSION: N/A\n", "bell": " FINDINGS: A \a bell.\n", "none": None}
    for number, (date, *more) in enumerate(case["studies"]):
        fields = dict(zip(("time", "report", "views"), more, strict=False))
        if report := fields.pop("report", None):
            fields["report"] = texts.get(report, f" FINDINGS: {report}\n")
        tree.add(50000000 + number, date=date, **fields)
    tree.split = [row for row in tree.split if row["study_id"] - 50000000 != case.get("no split")]
    tree.settings["max_bad_rows"] = 9
    tree.build()
    priors = read_table(tree.root / "corpus" / "priors.parquet", PRIOR_SCHEMA)
    chosen = {
        int(study) - 50000000: [int(prior) - 50000000, pytest.approx(gap, abs=1e-9)]
        for study, prior, gap in priors.iter_rows()
    }
    assert chosen == case["previous"], case["what"]


def test_a_table_without_its_header_is_not_quoted(tree: Tree) -> None:
    tree.add(50000001)
    tree.write()
    path = tree.root / BASE["mimic_cxr"]["metadata"]
    path.write_bytes(gzip.compress(f"1,{SECRET} in the left lower lobe,PA\n2,Clear,AP\n".encode()))
    with pytest.raises(DataError, match=r"it has 1, a text, PA$"):
        built(tree.config(), tree.root)


def test_report_files_that_cannot_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for content, message in (
        (None, r"no \.txt files"),
        (b" FINDINGS: caf\xe9\n", r"s1\.txt is not valid UTF-8"),
    ):
        if content:
            (folder / "s1.txt").write_bytes(content)
        shutil.make_archive(str(tmp_path / "reports"), "zip", folder)
        for source in (folder, tmp_path / "reports.zip"):
            with pytest.raises(DataError, match=message):
                read_original_findings(source)
    (folder / "s1.txt").write_text(" FINDINGS: Clear.\n")
    (folder / "again").mkdir()
    (folder / "again" / "s1.txt").write_text(" FINDINGS: Other.\n")
    (folder / "s2.txt").write_text(" IMPRESSION: Clear.\n")
    assert read_original_findings(folder).rows() == [
        ("1", "Other.")
    ]  # the first by its path; the second has none
    with zipfile.ZipFile(tmp_path / "reports.zip", "w") as packed:
        packed.writestr("s1.txt", " FINDINGS: Clear.")
    sound = (tmp_path / "reports.zip").read_bytes()
    for content in (b"PK no archive", sound.replace(b"Clear", b"Cleat")):
        (tmp_path / "broken.zip").write_bytes(content)
        with pytest.raises(
            DataError, match=r"broken\.zip cannot be read as a folder, a zip or a tar archive"
        ):
            read_original_findings(tmp_path / "broken.zip")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda tree: tree.metadata[0].pop("StudyTime"),
            r"csv\.gz: missing columns StudyTime; it has dicom_id",
        ),
        (
            lambda tree: tree.split.append(tree.split[0] | {"split": "test"}),
            r"more than one split for image '50000001",
        ),
        (
            lambda tree: tree.reports.update(
                {"copy/p10/p10000032/s50000001.txt": "IMPRESSION: Other."}
            ),
            r"more than one report for study '50000001'; keep",
        ),
    ],
)
def test_files_that_cannot_be_used(tree: Tree, spoil: Any, message: str) -> None:
    tree.add(50000001)
    spoil(tree)
    with pytest.raises(DataError, match=message) as caught:
        tree.build()
    assert SECRET not in str(caught.value)
