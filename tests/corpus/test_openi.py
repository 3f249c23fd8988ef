"""Open-I: XML reports in an archive or a folder, Kaggle's tables, splits, images, de-identified words."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import tarfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pacer.core.errors import DataError
from pacer.corpus import openi
from pacer.corpus.assemble import _join
from pacer.corpus.openi import read
from pacer.corpus.rows import Examination, LeftOut, Notes, Problem, Row
from pacer.corpus.source.files import Source
from pacer.corpus.splits import seeded_split
from pacer.corpus.text.cleaning import clean_report, clean_report_iu_xray
from pacer.params import Corpus, load_params

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
PHANTOM = load_params(ROOT / "configs" / "phantom.yaml").corpus.model_dump()

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
    config: dict[str, Any] = field(default_factory=lambda: {"split": None, "deidentified": "keep"})
    notes: Notes = field(default_factory=Notes)

    def write(self, role: str, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.files[role] = path
        return path

    def folder(self, *reports: bytes) -> OpenI:
        for number, content in enumerate(reports, start=1):
            self.write("reports", f"ecgen-radiology/{number}.xml", content)
        self.files["reports"] = self.root / "ecgen-radiology"
        return self

    def archive(self, members: dict[str, bytes], mode: str = "w:gz") -> OpenI:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode=mode) as tar:
            folder = tarfile.TarInfo("ecgen-radiology")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            for name, content in members.items():
                member = tarfile.TarInfo(f"ecgen-radiology/{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        self.write("reports", "NLMCXR_reports.tgz", packed.getvalue())
        return self

    def rows(self) -> list[Row]:
        values = {"reports": "-", "projections": "-"} | self.config
        config = Corpus.model_validate(
            PHANTOM
            | {"source": "files", "format": "openi", "root": str(self.root), "openi": values, "contexts": ["sn", "mn"]}
        )
        self.notes = Notes()
        rows = list(read(Source(self.root / "images", self.files, None), config, self.notes))
        assert sum(row.rows for row in rows) == sum(self.notes.read.values())
        return rows

    def row(self) -> Row:
        (row,) = self.rows()
        return row

    def examination(self) -> Examination:
        row = self.row()
        assert isinstance(row, Examination), row
        return row


@pytest.fixture
def distribution(tmp_path: Path) -> OpenI:
    made = OpenI(tmp_path)
    made.write("projections", "views.csv", VIEWS)
    return made


# ------------------------------------------------------------------------------------------------------------- XML


def test_a_report(distribution: OpenI) -> None:
    row = distribution.folder(report()).examination()
    assert row == Examination(
        place=row.place,
        id="CXR1",
        contexts=("sn", "mn"),
        split=seeded_split("CXR1", 7, 0.1, 0.2),
        study_id="CXR1",
        subject_id="CXR1",
        view="PA",
        frontal=f"{FRONTAL}.png",
        lateral=f"{LATERAL}.png",
        findings="Heart < normal & clear.",
        impression="No disease.",
        prior=None,
        indication="Cough",
        history=None,
    )
    assert row.place.file.endswith("ecgen-radiology/1.xml")
    assert distribution.notes.topics == {}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_archive_and_folder_agree(mode: str, distribution: OpenI) -> None:
    contents = [report(), report("CXR2", images=()), b"<broken"]
    folder = [row._replace(place=None) for row in distribution.folder(*contents).rows()]
    names = {f"{n}.xml": content for n, content in enumerate(contents, start=1)}
    extra = {"._1.xml": b"resource fork", "notes.txt": b"text"}
    archive = distribution.archive(names | extra, mode)
    assert [row._replace(place=None) for row in archive.rows()] == folder
    assert archive.notes.read == {"reports": 3}
    assert archive.notes.found("other_files") == {"reports": {".txt": 1, ".xml": 1}}


def test_texts(distribution: OpenI) -> None:
    content = report(Findings=" a\n b ", IMPRESSION="  ", indication="x").replace(b"a\n", b"a<i>i</i>\n")
    twice = b'<AbstractText Label="FINDINGS"> </AbstractText><AbstractText Label="FINDINGS">c</AbstractText>'
    twice += b"<AbstractText>no label</AbstractText></Abstract>"
    row = distribution.folder(content.replace(b"</Abstract>", twice)).examination()
    assert (row.findings, row.impression, row.indication) == (" ai\n b  c", None, "x")


@pytest.mark.parametrize(
    ("content", "field", "reason"),
    [
        (b"", "-", "not valid XML"),
        (b"<a>secret &undefined;</a>", "-", "not valid XML"),
        (b"<eCitation/>", "uId/@id", "expected a number such as CXR1 or 1"),
        (report("secret"), "uId/@id", "expected a number such as CXR1 or 1"),
        (report("CXR\u0661"), "uId/@id", "expected a number such as CXR1 or 1"),
        (report(images=("",)), "parentImage/@id", "blank text"),
        (report().replace(b'parentImage id="CXR', b'parentImage no="CXR'), "id", "missing"),
        (report().replace(b"utf-8", b"klingon"), "-", "encoding"),
        (report() + b"\xff", "-", "not valid XML"),
        (b"<!DOCTYPE a []><a/>", "-", "document type"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/hostname"><a/>', "-", "document type"),
        (b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><a>&b;</a>', "-", "document type"),
        (
            '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'.encode("utf-16"),
            "-",
            "document type",
        ),
    ],
)
def test_problems(content: bytes, field: str, reason: str, distribution: OpenI) -> None:
    row = distribution.folder(content).row()
    assert isinstance(row, Problem)
    assert row.field == field and reason in row.reason and "secret" not in row.reason


def test_entities_of_xml_itself_stay_allowed_in_text(distribution: OpenI) -> None:
    row = distribution.folder(report(FINDINGS="<!DOCTYPE and <!ENTITY are words here")).examination()
    assert row.findings == "<!DOCTYPE and <!ENTITY are words here"


def test_oversized_report(distribution: OpenI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openi, "_LARGEST", 100)
    for made in (distribution.folder(report()), distribution.archive({"1.xml": report()})):
        row = made.row()
        assert isinstance(row, Problem) and "more than 100 bytes" in row.reason


def test_deep_nesting(distribution: OpenI) -> None:
    assert isinstance(distribution.folder(b"<a>" * 200_000).row(), Problem)
    assert isinstance(distribution.folder(b"<a>" * 100_000 + b"</a>" * 100_000).row(), Problem)


# --------------------------------------------------------------------------------------------------- broken files


def test_no_projections(distribution: OpenI) -> None:
    del distribution.files["projections"]
    with pytest.raises(DataError, match=r"corpus\.openi\.projections.*columns image, view"):
        distribution.folder(report()).rows()


def test_no_reports_role(distribution: OpenI) -> None:
    with pytest.raises(DataError, match="no file for reports"):
        distribution.rows()


def test_nothing_in_it(distribution: OpenI) -> None:
    with pytest.raises(DataError, match="holds no XML report"):
        distribution.archive({}).rows()
    distribution.write("reports", "empty/readme.txt", "")
    distribution.files["reports"] = distribution.root / "empty"
    with pytest.raises(DataError, match="holds no XML report"):
        distribution.rows()


def test_missing_and_not_an_archive(distribution: OpenI) -> None:
    distribution.files["reports"] = distribution.root / "none.tgz"
    with pytest.raises(DataError, match="does not exist"):
        distribution.rows()
    distribution.write("reports", "reports.tgz", "not an archive")
    with pytest.raises(DataError, match="nor a sound tar archive"):
        distribution.rows()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_truncated_archives_are_noticed(mode: str, share: float, distribution: OpenI) -> None:
    members = {f"{n}.xml": report(f"CXR{n}", FINDINGS=str(n**99)) for n in range(1, 60)}
    path = distribution.archive(members, mode).files["reports"]
    content = path.read_bytes()
    # the end of an uncompressed archive is padding
    path.write_bytes(content[: int((len(content) - 10_240 * (mode == "w")) * share)])
    with pytest.raises(DataError):
        distribution.rows()


def test_damaged_header_is_no_end(distribution: OpenI) -> None:
    path = distribution.archive({f"{n}.xml": report(f"CXR{n}") for n in range(1, 9)}, "w").files["reports"]
    content = bytearray(path.read_bytes())
    position = content.index(b"ecgen-radiology/5.xml")
    content[position : position + 8] = b"\1" * 8
    path.write_bytes(content)
    with pytest.raises(DataError, match="breaks off after"):
        distribution.rows()


# ---------------------------------------------------------------------------------------------------------- images


@pytest.mark.parametrize(
    "name",
    [
        "1_IM-0001-4001.jpg",
        "CXR1_1_IM-0001-4001.png",
        "CXR1_IM-0001-4001.dcm",
        "1_IM-0001-4001.dcm.png",
        "deep/er/1_IM-0001-4001.JPEG",
    ],
)
def test_image_files_of_every_distribution(name: str, distribution: OpenI) -> None:
    distribution.write("image", f"images/{name}", b"")
    row = distribution.folder(report()).examination()
    assert (row.frontal, row.lateral) == (name, f"{LATERAL}.png")


def test_one_of_several_files_of_an_image(distribution: OpenI) -> None:
    for name in ("1_IM-0001-4001.dcm", "z/1_IM-0001-4001.png", "1_IM-0001-4001.txt"):
        distribution.write("image", f"images/{name}", b"")
    assert distribution.folder(report()).examination().frontal == "z/1_IM-0001-4001.png"
    distribution.write("image", "images/CXR1_1_IM-0001-4001.dcm.png", b"")
    assert distribution.examination().frontal == "CXR1_1_IM-0001-4001.dcm.png"


def test_symlinked_folders_are_followed_and_loops_end(distribution: OpenI) -> None:
    store = distribution.root / "store"
    for name in ("pictures/1_IM-0001-4001.png", "texts/1.xml"):
        distribution.write("-", f"store/{name}", report())
    for name, target in (("images", "pictures"), ("ecgen-radiology", "texts")):
        (distribution.root / name).mkdir()
        (distribution.root / name / "linked").symlink_to(store / target)
        (store / target / "back").symlink_to(distribution.root / name)
        (distribution.root / name / "gone.xml").symlink_to(store / "none")
    distribution.files["reports"] = distribution.root / "ecgen-radiology"
    row = distribution.examination()
    assert row.frontal == "linked/1_IM-0001-4001.png"
    assert row.place.file.endswith("ecgen-radiology/linked/1.xml")
    assert distribution.notes.found("other_files") == {"reports": {".xml": 1}}, "a link to nothing"


@pytest.mark.parametrize("name", ["images", "ecgen-radiology"])
def test_unreadable_folders(name: str, distribution: OpenI, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution.write("-", "images/deep/1_IM-0001-4001.png", b"")
    distribution.write("-", "ecgen-radiology/deep/2.xml", report("CXR2"))
    distribution.folder(report())
    scandir, refused = os.scandir, str(distribution.root / name / "deep")

    def refuse(path: str) -> object:
        if str(path) == refused:
            raise PermissionError(13, "Permission denied", refused)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)  # permissions do not bind every user
    with pytest.raises(DataError, match=f"{name}/deep cannot be read"):
        distribution.rows()


def test_names_that_are_no_text(distribution: OpenI) -> None:
    try:
        distribution.write("image", "images/\udcff/1_IM-0001-4001.png", b"")
    except OSError:
        pytest.skip("the file system takes text alone")
    distribution.archive({"1.xml": report(), "a.\udcff": b"", "\udcff.xml": report("CXR2")})
    row, other = distribution.rows()
    assert isinstance(row, Examination) and row.frontal == f"{FRONTAL}.png"
    assert other.place.file.endswith("?.xml")
    assert distribution.notes.found("other_files") == {"reports": {".?": 1}}


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ((), "no image"),
        ((LATERAL,), "no frontal image"),
        (("CXR1_1_IM-0001-9999",), "unknown view"),
        ((LATERAL, "CXR1_1_IM-0001-9999"), "no frontal image"),
        ((FRONTAL,), (FRONTAL, None, "PA", ("sn",))),
        ((FRONTAL, "CXR1_1_IM-0001-9999"), (FRONTAL, None, "PA", ("sn",))),
        (("CXR1_1_IM-0001-5001", FRONTAL), ("CXR1_1_IM-0001-5001", None, "AP", ("sn",))),
        (("CXR1_1_IM-0001-6001", LATERAL, FRONTAL, FRONTAL), (FRONTAL, "CXR1_1_IM-0001-6001", "PA", ("sn", "mn"))),
    ],
)
def test_choice_of_images(images: tuple[str, ...], expected: Any, distribution: OpenI) -> None:
    row = distribution.folder(report(images=images)).row()
    unknown = sum(image.endswith("9999") for image in images)
    assert distribution.notes.found("unknown_views") == ({"projections": {"images": unknown}} if unknown else {})
    if isinstance(expected, str):
        assert isinstance(row, LeftOut) and row.reason == expected
        return
    assert isinstance(row, Examination)
    frontal, lateral, view, contexts = expected
    assert (row.frontal, row.lateral) == (f"{frontal}.png", lateral and f"{lateral}.png")
    assert (row.view, row.contexts) == (view, contexts)


def test_further_images_are_counted(distribution: OpenI) -> None:
    images = (FRONTAL, FRONTAL, LATERAL, "CXR1_1_IM-0001-5001", "CXR1_1_IM-0001-6001")  # one is named twice
    distribution.folder(report(images=images)).examination()
    assert distribution.notes.found("further_images") == {"reports": {"frontal": 1, "lateral": 1}}


# ---------------------------------------------------------------------------------------------------------- splits


def test_without_target_text(distribution: OpenI) -> None:
    row = distribution.folder(report(INDICATION="Cough", FINDINGS=" ", COMPARISON="x")).row()
    assert isinstance(row, LeftOut) and row.reason == "neither findings nor impression"


def test_r2gen_split(distribution: OpenI) -> None:
    distribution.config["split"] = "r2gen"
    rows = distribution.folder(report(), report("CXR2"), report("CXR3999999")).rows()
    assert [row.split if isinstance(row, Examination) else row.reason for row in rows] == [
        "train",
        "test",
        "not in the split",
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "annotation.json",
            json.dumps({"train": [], "val": [{"id": "CXR1_1_IM-0001"}], "test": [{"id": "CXR12_IM-2"}]}),
        ),
        ("annotation.json.gz", gzip.compress(b'{"val": [{"id": "CXR1_1_IM-0001"}]}')),
        ("split.csv", "uid,split\n1,val\n12,test\n1,val\n"),
        ("split.csv", "split,id\nval,CXR1_1_IM-0001\n"),
        ("split.jsonl", '{"id": "CXR1", "split": "val"}\n'),
        ("split.jsonl", '{"uid": 1, "split": "val"}\n'),
        ("split.csv.gz", gzip.compress(b"id,split\nCXR1,val\n")),
    ],
)
def test_split_files(name: str, content: str | bytes, distribution: OpenI) -> None:
    distribution.config["split"] = name
    distribution.write("split", name, content)
    rows = distribution.folder(report(), report("CXR2")).rows()
    assert [row.split if isinstance(row, Examination) else row.reason for row in rows] == ["val", "not in the split"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("split.csv", "uid,split\n1,dev\n", r"line 2 must name a report"),
        ("split.csv", "uid,split\nx,val\n", r"line 2 must name a report"),
        ("split.csv", "uid,split\n1,val\nCXR1,test\n", r"line 3 puts CXR1 into a second split"),
        ("split.csv", "uid\n1\n", r"needs a column split"),
        ("annotation.json", '{"train": [1]}', r"train\[0\] must name a report"),
        ("annotation.json", '{"train": [{"id": "CXR1"}', r"not valid JSON"),
        ("split.txt", "", r"must be a table"),
    ],
)
def test_broken_split_files(name: str, content: str, message: str, distribution: OpenI) -> None:
    distribution.config["split"] = name
    distribution.folder(report())
    with pytest.raises(DataError, match="no file for split"):
        distribution.rows()
    distribution.write("split", name, content)
    with pytest.raises(DataError, match=message):
        distribution.rows()


# ------------------------------------------------------------------------------------------------ Kaggle's tables

KAGGLE = "uid,MeSH,Problems,image,indication,comparison,findings,impression\n"


def kaggle(distribution: OpenI, reports: str, projections: str) -> list[Row]:
    distribution.write("reports", "indiana_reports.csv", KAGGLE + reports)
    distribution.write("projections", "indiana_projections.csv", projections)
    return distribution.rows()


def test_kaggle(distribution: OpenI) -> None:
    distribution.write("image", "images/1_IM-0001-4001.dcm.png", b"")
    rows = kaggle(
        distribution,
        '1,normal,normal,Xray,Cough,None.,"Clear, normal.",\n2,,,,,,,"No\nXXXX."\n3,,,,,,,x\n4,,,,,,,\nCXR5,,,,,,a,\n',
        "uid,filename,projection\n1,1_IM-0001-4001.dcm.png,Frontal\n1,1_IM-0001-3001.dcm.png,Lateral\n"
        "2,2_IM-0652-1001.dcm.png,Frontal\n5,5_IM-1-1.dcm.png,Lateral\n",
    )
    first, second, *others = rows
    assert isinstance(first, Examination) and isinstance(second, Examination)
    assert (first.id, first.subject_id, first.study_id) == ("CXR1",) * 3
    assert (first.findings, first.impression, first.indication) == ("Clear, normal.", None, "Cough")
    assert (first.frontal, first.lateral, first.view) == ("1_IM-0001-4001.dcm.png", "1_IM-0001-3001.dcm.png", "other")
    assert (second.impression, second.indication, second.contexts) == ("No\nXXXX.", None, ("sn",))
    assert [row.reason for row in others if isinstance(row, LeftOut)] == [
        "no image",
        "neither findings nor impression",
        "no frontal image",
    ]
    assert [row.place.index for row in rows] == [2, 3, 5, 6, 7]  # lines: the second report has two
    assert distribution.notes.found("deidentified") == {"reports": {"impression": 1}}


def test_a_table_of_views_that_knows_few_images_is_refused(distribution: OpenI) -> None:
    """As a table of another part of the collection, or a sample of it, would leave a fraction of the reports."""
    reports = "".join(f"{n},,,,,,a,\n" for n in range(40))
    views = [f"{n},{n}_IM-1-1.dcm.png,Frontal\n" for n in range(40)]
    blank = [f"{n},{n}_IM-1-1.dcm.png,\n" for n in range(40)]
    with pytest.raises(DataError, match=r"projections.csv gives the view of 19 of the 40 images that the reports name"):
        kaggle(distribution, reports, "".join(["uid,filename,projection\n", *views[:19], *blank[19:]]))
    assert len(kaggle(distribution, reports, "".join(["uid,filename,projection\n", *views[:20], *blank[20:]]))) == 40


@pytest.mark.parametrize("content", [b"", b"<html>log in first</html>", gzip.compress(b"x" * 5000)])
def test_a_tgz_that_is_none(distribution: OpenI, content: bytes) -> None:
    distribution.write("reports", "NLMCXR_reports.tgz", content)
    with pytest.raises(
        DataError, match=r"nor a sound tar archive \(it is none\); expected NLMCXR_reports.tgz"
    ) as error:
        distribution.rows()
    assert "\n" not in str(error.value)


def test_kaggle_texts_are_judged_as_others(distribution: OpenI) -> None:
    row, _ = kaggle(distribution, "1,,,,,,secret \x07,\n2,,,,,,a,\n", VIEWS)
    assert isinstance(row, Problem) and row.field == "findings" and "U+0007" in row.reason


def test_kaggle_with_a_table_of_ones_own(distribution: OpenI) -> None:
    (row,) = kaggle(distribution, "1,,,,,,a,b\n", "image,view\nCXR1_1_IM-0001-4001,AP\n1_IM-0001-3001.jpg,LL\n")
    assert isinstance(row, Examination)
    assert (row.frontal, row.lateral, row.view) == ("1_IM-0001-4001.dcm.png", "1_IM-0001-3001.jpg", "AP")


@pytest.mark.parametrize(
    ("line", "field", "reason"),
    [
        ("secret,,,,,,a,b", "uid", "expected a number such as CXR1 or 1"),
        (",,,,,,a,b", "uid", "expected a number such as CXR1 or 1"),
    ],
)
def test_kaggle_problems(line: str, field: str, reason: str, distribution: OpenI) -> None:
    row, good = kaggle(distribution, f"{line}\n1,,,,,,a,b\n", VIEWS)
    assert isinstance(row, Problem) and isinstance(good, Examination)
    assert row.field == field and reason in row.reason and "secret" not in row.reason


@pytest.mark.parametrize(
    "lines",
    ["1,secret,b", "1,,,,,,a,b,secret", '1,,,,,,Clear.,"ok\n2,,,,,,secret,bad', '1,,,,,,"Clear.","No secret. No eff'],
)
def test_kaggle_damaged(lines: str, distribution: OpenI) -> None:
    """A stray quote would swallow the reports below it; a file that is cut off in a cell ends in one."""
    with pytest.raises(DataError, match=r"indiana_reports\.csv, line 2") as caught:
        kaggle(distribution, lines + "\n", VIEWS)
    assert "secret" not in str(caught.value).replace(str(distribution.root), "")


def test_kaggle_without_columns(distribution: OpenI) -> None:
    distribution.write("reports", "indiana_reports.csv", "uid,findings\n1,a\n")
    with pytest.raises(DataError, match="needs a column impression"):
        distribution.rows()


# ------------------------------------------------------------------------------------------------ de-identification


def test_treatment_is_applied_and_counted(distribution: OpenI) -> None:
    content = report(FINDINGS="Clear. XXXX seen.", IMPRESSION="XXXX.", INDICATION="  untouched  text ;")
    distribution.config["deidentified"] = "drop_sentence"
    row = distribution.folder(content).examination()
    assert (row.findings, row.impression, row.indication) == ("Clear.", None, "  untouched  text ;")
    assert distribution.notes.found("deidentified") == {"reports": {"findings": 1, "impression": 1}}
    row = distribution.folder(report(IMPRESSION="XXXX.")).row()
    assert isinstance(row, LeftOut) and row.reason == "neither findings nor impression without de-identified words"


# ------------------------------------------------------------------------------------------------------- anything

QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)

#: Bytes that look like XML more often than chance.
XML = st.lists(
    st.sampled_from(
        [
            "<a>",
            "</a>",
            "<uId id='1'/>",
            "<parentImage id='b'>",
            "<!DOCTYPE a>",
            "<![CDATA[",
            "]]>",
            "&lt;",
            "<AbstractText Label='FINDINGS'>",
            "</AbstractText>",
            "<?xml version='1.0' encoding='utf-16'?>",
        ]
    )
    | st.text(max_size=3)
).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))


@QUIET
@given(st.lists(st.binary() | XML, max_size=3))
def test_any_files(distribution: OpenI, contents: list[bytes]) -> None:
    rows = distribution.archive({f"{n}.xml": content for n, content in enumerate([report(), *contents])}).rows()
    assert len(rows) == len(contents) + 1


XML_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(
    ["XXXX", "a. XXXX b."]
)


@QUIET
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["CXR1", "2", "x"]) | XML_TEXT,
            st.lists(st.sampled_from([FRONTAL, LATERAL]) | XML_TEXT, max_size=3).map(tuple),
            st.dictionaries(st.sampled_from(list(TEXTS)), XML_TEXT, min_size=1),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["keep", "remove", "drop_sentence"]),
    st.sampled_from([None, "r2gen"]),
)
def test_any_reports(distribution: OpenI, reports: list[Any], how: str, split: str | None) -> None:
    distribution.config = {"split": split, "deidentified": how}
    contents = {f"{n}.xml": report(uid, images, **texts) for n, (uid, images, texts) in enumerate(reports)}
    assert len(distribution.archive(contents, "w").rows()) == len(reports)


@QUIET
@given(st.binary(), st.sampled_from(["r.csv", "r.tgz", "r.csv.gz"]), st.booleans())
def test_any_bytes_as_the_whole_file(distribution: OpenI, content: bytes, name: str, header: bool) -> None:
    distribution.write("reports", name, (KAGGLE.encode() if header else b"") + content)
    with suppress(DataError):
        distribution.rows()


@QUIET
@given(st.data())
def test_damaged_archives(distribution: OpenI, data: st.DataObject) -> None:
    made = distribution.archive(
        {f"{n}.xml": report(f"CXR{n}") for n in range(3)}, data.draw(st.sampled_from(["w", "w:gz"]))
    )
    content = bytearray(made.files["reports"].read_bytes())
    for position in data.draw(st.lists(st.integers(0, min(len(content) - 1, 6000)), min_size=1, max_size=4)):
        content[position] = data.draw(st.integers(0, 255))
    made.files["reports"].write_bytes(content)
    with suppress(DataError):
        made.rows()


# ----------------------------------------------------------------------------------------------- the real collection


def real(folder: Path, uncertain: bool, **config: Any) -> tuple[list[Row], Notes]:
    """The distributed archive with views from the table beside it."""
    if not (DATA / "openi" / "NLMCXR_reports.tgz").is_file():
        pytest.skip(f"the real Open-I files are not at {DATA}")
    with gzip.open(DATA / "openi" / "reports.jsonl.gz", "rt") as lines, open(folder / "v.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("image", "view", "projection"))
        for line in lines:
            for image in json.loads(line)["images"]:
                known = uncertain or not image["view_uncertain"]
                table.writerow((image["id"], *((image["view"], image["dicom_view"]) if known else ("", ""))))
    made = OpenI(folder, {"reports": DATA / "openi" / "NLMCXR_reports.tgz", "projections": folder / "v.csv"})
    made.config |= {"split": "r2gen"} | config
    (folder / "images").symlink_to(DATA)
    return made.rows(), made.notes


def test_the_cleaner_for_this_corpus_differs_in_few_whole_reports() -> None:
    """The figure of docs/corpora.md."""
    archive = DATA / "openi" / "NLMCXR_reports.tgz"
    if not archive.is_file():
        pytest.skip(f"the real Open-I files are not at {DATA}")
    found = [report.texts for _, report in openi._xml_reports(archive, Notes())]
    whole = [text for texts in found if (text := _join(texts["findings"], texts["impression"])[0])]
    differ = sum(clean_report(text) != clean_report_iu_xray(text) for text in whole)
    assert (len(found), len(whole), differ) == (3955, 3927, 17)


def test_real_reports_and_split(tmp_path: Path) -> None:
    rows, notes = real(tmp_path, uncertain=True)
    assert notes.read == {"reports": 3955}
    left_out = [row for row in rows if isinstance(row, LeftOut)]
    assert Counter(row.reason for row in left_out) == {"not in the split": 1000, "no frontal image": 8}
    exams = {row.id: row for row in rows if isinstance(row, Examination)}
    assert len(exams) + len(left_out) == 3955
    # six of train and two of val have no frontal image: 2,069/296/590 are in the split
    assert Counter(row.split for row in exams.values()) == {"train": 2063, "val": 294, "test": 590}
    assert all((DATA / image).is_file() for row in exams.values() for image in (row.frontal, row.lateral) if image)


def test_real_reports_equal_the_converted_ones(tmp_path: Path) -> None:
    """The conversion to MIMIC-RG4's layout left out images of uncertain view, so here their view is not known."""
    rows, _ = real(tmp_path, uncertain=False)
    exams = {row.id: row for row in rows if isinstance(row, Examination)}
    for context in ("sn", "mn"):
        converted = json.loads((DATA / "rg4" / "openi" / f"{context}.json").read_text())
        expected, found = {}, {}
        for split, records in converted.items():
            for r in records:
                view = r["APPA_flag"] if r["APPA_flag"] in ("AP", "PA") else "other"
                absent = {
                    name: None if r[name] in ("s", 0) else r[name] for name in ("finding", "impression", "indication")
                }
                expected[r["id"]] = (
                    split,
                    r["subject_id"],
                    r["APPA_imagepath"],
                    r.get("lateral_imagepath"),
                    view,
                    *absent.values(),
                )
        for row in exams.values():
            if context in row.contexts:
                lateral = row.lateral if context == "mn" else None
                found[row.id] = (
                    row.split,
                    row.subject_id,
                    row.frontal,
                    lateral,
                    row.view,
                    row.findings,
                    row.impression,
                    row.indication,
                )
        assert found.keys() == expected.keys()
        differing = [name for name, values in expected.items() if found[name] != values]
        assert differing == []
