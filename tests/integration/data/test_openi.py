"""Open-I: XML reports in an archive or a folder, splits, images."""

import gzip
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from xml.sax.saxutils import escape, quoteattr

import pytest

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.data.account import Account
from pacer.data.readers.openi import read
from pacer.data.records import seeded_split
from pacer.data.source import Source
from tests.support.cases import cases, listed_cases
from tests.support.corpus import BASE, read_rows

FRONTAL, LATERAL = "CXR1_1_IM-0001-4001", "CXR1_1_IM-0001-3001"
VIEWS = "image,view\n1_IM-0001-4001,PA\n1_IM-0001-3001,Lateral\n1_IM-0001-5001,AP\n1_IM-0001-6001,LL\n"
TEXTS = {
    "FINDINGS": "Heart < normal & clear.",
    "IMPRESSION": "No disease.",
    "INDICATION": "Cough",
    "COMPARISON": "Prior film.",
}


def report(uid: str = "CXR1", images: tuple[str, ...] = (LATERAL, FRONTAL), **texts: str) -> bytes:
    sections = "".join(
        f"<AbstractText Label={quoteattr(k)}>{escape(v)}</AbstractText>" for k, v in (texts or TEXTS).items()
    )
    named = "".join(f"<parentImage id={quoteattr(image)}><caption/></parentImage>" for image in images)
    return (
        f'<?xml version="1.0" encoding="utf-8"?><eCitation><uId id={quoteattr(uid)}/><MedlineCitation><Article>'
        f"<Abstract>{sections}</Abstract></Article></MedlineCitation>{named}</eCitation>"
    ).encode()


@dataclass
class OpenI:
    """A small distribution; ``config`` holds values of ``corpus.openi``."""

    root: Path
    files: dict[str, Path] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=lambda: {"split": None})
    notes: Account = field(default_factory=Account)

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
        made = shutil.make_archive(str(self.root / "NLMCXR_reports"), "gztar", self.root, folder.name)
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
    place = {"file": str(distribution.root / "ecgen-radiology" / "1.xml"), "split": seeded_split("CXR1", 7, 0.1, 0.2)}
    assert distribution.folder(report()).row() == expected | place
    assert distribution.notes.notes == {}


def test_archive_and_folder_agree(distribution: OpenI) -> None:
    distribution.folder(report(), report("CXR2", images=()), b"<broken")
    for name in ("._1.xml", "notes.txt"):
        (distribution.files["reports"] / name).write_bytes(b"no report")
    rows = distribution.rows()
    assert [row["row"] for row in rows] == [""] * 3 and distribution.notes.read == {"reports": 3}
    packed = distribution.archive().rows()
    assert [row | {"file": None} for row in packed] == [row | {"file": None} for row in rows]


def test_texts(distribution: OpenI) -> None:
    content = report(Findings=" a\n b ", IMPRESSION="  ", indication="x").replace(b"a\n", b"a<i>i</i>\n")
    twice = b'<AbstractText Label="FINDINGS"> </AbstractText><AbstractText Label="FINDINGS">c</AbstractText>'
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
def test_image_files_of_every_distribution(kind: str, case: dict[str, Any], distribution: OpenI) -> None:
    for name in case["there"]:
        distribution.write("image", f"images/{name}", b"")
    row = distribution.folder(report()).row()
    assert (row["frontal"], row.get("lateral")) == (case["frontal"], f"{LATERAL}.png")


@cases(__file__, "images")
def test_choice_of_images(kind: str, case: dict[str, Any], distribution: OpenI) -> None:
    row = distribution.folder(report(images=tuple(case["images"]))).row()
    unknown = {"views.csv": {"images": case["unknown"]}} if case["unknown"] else {}
    assert distribution.notes.notes.get("unknown_views", {}) == unknown
    assert row.get("reason") == case.get("reason")
    assert {name: row.get(name) for name in case.get("study", {})} == case.get("study", {})


def test_r2gen_split(distribution: OpenI) -> None:
    distribution.config["split"] = "r2gen"
    rows = distribution.folder(report(), report("CXR2"), report("CXR3999999")).rows()
    assert [row.get("reason", row.get("split")) for row in rows] == ["train", "test", "not in the split"]


@pytest.mark.parametrize("content", [None, b"", b"<html>log in first</html>", gzip.compress(b"x" * 5000)])
def test_a_tgz_that_is_none_or_cut_off(distribution: OpenI, content: bytes | None) -> None:
    distribution.folder(*(report(f"CXR{n}") for n in range(1, 60)))
    whole = distribution.archive().files["reports"].read_bytes()
    distribution.write("reports", "NLMCXR_reports.tgz", whole[:-400] if content is None else content)
    with pytest.raises(
        DataError, match=r"NLMCXR_reports\.tgz cannot be read as a folder, a zip or a tar archive"
    ) as error:
        distribution.rows()
    assert "\n" not in str(error.value)
