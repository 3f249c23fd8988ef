"""One study by two systems: what is looked up where, and what is refused."""

import re
from pathlib import Path

import polars as pl
import pytest

from pacer.commitments.anchor import POLARITIES
from pacer.core.errors import DataError
from pacer.reporting.pages import show_study

REFERENCE = {
    "sn": "small left effusion . no pneumothorax .",
    "sw": "a new right picc has been inserted . no pneumothorax .",
}
BY_A = {"sn": "left effusion . no pneumothorax .", "sw": "a new picc . no pneumothorax ."}
BY_B = {"sn": "no pneumothorax . the heart is enlarged .", "sw": "the heart is enlarged , unchanged ."}


def scored(folder: Path, texts: dict[str, str], references=REFERENCE, study: str = "s1") -> Path:
    """A folder of scores as far as it is read here."""
    folder.mkdir(parents=True)
    rows = {
        "record_id": [f"{context}-{study}" for context in texts],
        "context": list(texts),
        "study_id": [study] * len(texts),
        "reference": [references[context] for context in texts],
        "hypothesis": list(texts.values()),
        "rougeL": [0.5] * len(texts),
        "meteor_statistics": [[0.0]] * len(texts),
    } | {f"{side}_labels": [[0] * 14] * len(texts) for side in ("reference", "hypothesis")}
    rows |= {f"{side}_{name}": [["edema"]] * len(texts) for side in ("reference", "report") for name in POLARITIES}
    pl.DataFrame(rows).write_parquet(folder / "cases.parquet")
    (folder / "signature.json").write_text("{}")
    return folder


@pytest.fixture
def both(tmp_path: Path) -> list[tuple[str, Path]]:
    return [("ours", scored(tmp_path / "a/metrics", BY_A).parent), ("theirs", scored(tmp_path / "b", BY_B))]


def columns(systems, out: Path, study: str = "s1", contexts=("sn", "sw")) -> list[str]:
    """The page's texts as HTML, those of the reference and of both systems in each context."""
    page = show_study(study, systems, contexts, Path("nowhere/records.parquet"), Path("nowhere/images.parquet"), out)
    return page.read_text().split('<section class="reading">')[1:]


def marks(text: str) -> dict[str, str]:
    return {words: classes for classes, words in re.findall(r'<mark class="([^"]*)"[^>]*>([^<]*)</mark>', text)}


def test_two_scored_runs_need_nothing_else(both, tmp_path: Path) -> None:
    reference, ours, theirs, *later = columns(both, tmp_path)
    assert ">Reference<" in reference and ">ours<" in ours and ">theirs<" in theirs
    assert marks(reference) == {"effusion": "matching", "no pneumothorax": "matching"}  # one of the systems says it
    assert columns(both[::-1], tmp_path)[0] == reference
    assert 'title="pleural effusion: positive; in both reports; said by ours"' in reference
    assert "said by ours and theirs" in reference
    assert marks(ours) == marks(reference)
    assert marks(theirs) == {"no pneumothorax": "matching", "heart is enlarged": "unverified"}
    assert "No radiograph" in (tmp_path / "study-s1.html").read_text()
    assert marks(later[0])["picc"] == "matching changed"  # what the previous report adds


def test_another_side_than_the_references_is_marked_in_both(tmp_path: Path) -> None:
    systems = [("ours", scored(tmp_path / "a", {"sn": "small right effusion . no pneumothorax ."}))]
    reference, ours = columns(systems, tmp_path, contexts=["sn"])
    assert marks(reference) == marks(ours) == {"effusion": "wrong-side", "no pneumothorax": "matching"}
    assert 'title="pleural effusion: positive; side: right here, left in the reference"' in ours
    page = (tmp_path / "study-s1.html").read_text()
    assert "mark.wrong-side {" in page and '<mark class="wrong-side">wrong side</mark> left in one, right' in page


@pytest.mark.parametrize(
    ("texts", "references", "message"),
    [
        ({"sn": "x ."}, REFERENCE, r"b has no report for study s1 in context sw \(it has: sn\)"),
        (BY_B, REFERENCE | {"sw": "other ."}, "ours and theirs have different references for study s1 in context sw"),
    ],
)
def test_what_cannot_stand_side_by_side_is_refused(tmp_path: Path, texts, references, message: str) -> None:
    systems = [("ours", scored(tmp_path / "a", BY_A)), ("theirs", scored(tmp_path / "b", texts, references))]
    with pytest.raises(DataError, match=message):
        columns(systems, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_several_examinations_of_a_study_are_told_apart(tmp_path: Path) -> None:
    folder = scored(tmp_path / "a", {"sn": "x ."})
    cases = pl.read_parquet(folder / "cases.parquet")
    two = [cases.with_columns(record_id=pl.lit(name)) for name in ("sn-e1", "sn-e2")]
    pl.concat(two).write_parquet(folder / "cases.parquet")
    with pytest.raises(DataError, match="several reports for study s1: sn-e1 and sn-e2; pass one of these ids"):
        columns([("a", folder)] * 2, tmp_path, contexts=["sn"])
    for study in ("e2", "sn-e2"):
        assert len(columns([("a", folder)] * 2, tmp_path, study, ["sn"])) == 3


@pytest.mark.parametrize("study", ["a/../../x", "/etc/x", "..", "x\0y", "<script>"])
def test_whatever_the_study_is_called_its_page_stays_in_its_folder(tmp_path: Path, study: str) -> None:
    systems = [("<b>", scored(tmp_path / "a", BY_A, study=study)), ("&", scored(tmp_path / "b", BY_B, study=study))]
    before = {*tmp_path.rglob("*")}
    columns(systems, tmp_path / "out", study)
    [folder, page] = sorted({*tmp_path.rglob("*")} - before)
    assert page.parent == folder == tmp_path / "out"
    assert "<b>" not in page.read_text() and "<script" not in page.read_text()
