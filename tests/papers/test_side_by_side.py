"""One study by two systems: what is looked up where, what is refused, and a drawing that any program can read."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFont

from pacer.core.contexts import SOURCES
from pacer.core.errors import DataError
from pacer.papers import marked_svg
from pacer.papers.marked_svg import draw, runs
from pacer.papers.side_by_side import Reading, SideBySide, View, side_by_side, write_side_by_side
from pacer.reporting.cases import _view
from pacer.reporting.support import Piece, pieces, statements
from tests.browser import needs_browser, overflow, visit

pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"
REFERENCE = {
    "sn": "small left effusion . no pneumothorax .",
    "sw": "a new right picc has been inserted . no pneumothorax .",
}
BY_A = {"sn": "left effusion . no pneumothorax .", "sw": "a new picc . no pneumothorax ."}
BY_B = {"sn": "no pneumothorax . the heart is enlarged .", "sw": "the heart is enlarged , unchanged ."}


def scored(folder: Path, texts: dict[str, str], references=REFERENCE, study: str = "s1", ids=None) -> Path:
    """A folder of scores as far as it is read here."""
    folder.mkdir(parents=True)
    rows = {
        "record_id": [(ids or {}).get(context, f"{context}-{study}") for context in texts],
        "context": list(texts),
        "study_id": [study] * len(texts),
        "reference": [references[context] for context in texts],
        "hypothesis": list(texts.values()),
        "rougeL": [0.5] * len(texts),
    } | {f"{side}_labels": [[0] * 14] * len(texts) for side in ("reference", "hypothesis")}
    pl.DataFrame(rows).write_parquet(folder / "cases.parquet")
    (folder / "signature.json").write_text("{}")
    return folder


@pytest.fixture
def both(tmp_path: Path) -> list[tuple[str, Path]]:
    return [("ours", scored(tmp_path / "a/metrics", BY_A).parent), ("theirs", scored(tmp_path / "b", BY_B))]


def shown(systems, study: str = "s1", contexts=("sn", "sw"), root=Path("nowhere")) -> SideBySide:
    return side_by_side(study, systems, contexts, root / "records.parquet", root / "images.parquet")


def marks(text: list[Piece]) -> dict[str, str]:
    return {piece.text: piece.classes for piece in text if piece.support}


@pytest.mark.parametrize("study", ["s1", "sn-s1"])
def test_two_scored_runs_need_nothing_else(both, study: str) -> None:
    contexts = ("sn",) if study == "sn-s1" else ("sn", "sw")
    found = shown(both, study, contexts)
    assert found.systems == ("ours", "theirs") and [reading.context for reading in found.readings] == list(contexts)
    reference, ours, theirs = found.readings[0].texts
    assert marks(reference) == {"effusion": "matching", "no pneumothorax": "matching"}  # one of the systems says it
    assert marks(ours) == marks(reference)
    assert marks(theirs) == {"no pneumothorax": "matching", "heart is enlarged": "unverified"}
    assert found.views == () and "nowhere/records.parquet does not hold these records" in found.notes[1]


def test_what_the_previous_report_adds_is_seen_in_all_three_texts(both) -> None:
    reference, ours, theirs = shown(both).readings[1].texts
    assert marks(reference)["new"] == "matching longitudinal changed" and marks(reference)["picc"] == "matching changed"
    assert marks(reference)["has been inserted"] == "reference-only longitudinal changed"
    assert marks(ours) == {
        "new": "matching longitudinal changed",
        "picc": "matching changed",
        "no pneumothorax": "matching",
    }
    assert marks(theirs) == {"heart is enlarged": "unverified", "unchanged": "unverified longitudinal changed"}


def test_reports_of_a_run_and_of_a_file_stand_beside_radiograph_and_previous_report(full_run, tmp_path: Path) -> None:
    cases = pl.read_parquet(full_run.root / "metrics" / "cases.parquet")
    study = cases.filter(context="mw")["study_id"][0]
    lines = [{"record_id": row["record_id"], "text": "small effusion ."} for row in cases.to_dicts()]
    (tmp_path / "o.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    corpus = full_run.root / "corpus"
    systems = [("metrics", full_run.root), ("o.jsonl", tmp_path / "o.jsonl")]
    found = side_by_side(study, systems, ["sn", "mw"], corpus / "records.parquet", corpus / "images.parquet")
    records = {
        row["context"]: row for row in pl.read_parquet(corpus / "records.parquet").filter(study_id=study).to_dicts()
    }
    assert [view.name for view in found.views] == ["frontal", "lateral"] and len(found.notes) == 1
    assert [reading.prior_report for reading in found.readings] == [None, records["mw"]["prior_report"]]
    for reading in found.readings:
        reference, ours, theirs = ("".join(piece.text for piece in text) for text in reading.texts)
        own = cases.filter(context=reading.context, study_id=study)
        assert (reference, ours, theirs) == (
            records[reading.context]["report"],
            own["hypothesis"][0],
            "small effusion .",
        )
    (corpus / "images.parquet").unlink()
    without = side_by_side(study, systems, ["sn"], corpus / "records.parquet", corpus / "images.parquet")
    assert without.views == () and "images.parquet does not name it" in without.notes[1]


@pytest.mark.parametrize(
    ("texts", "references", "ids", "said"),
    [
        (
            {"sn": "x ."},
            REFERENCE,
            None,
            r"b has no report of study s1 in context sw; it has sn: choose with --context",
        ),
        (BY_B, REFERENCE | {"sw": "other ."}, None, "another reference in context sw in theirs than in ours"),
    ],
)
def test_what_cannot_stand_side_by_side_is_refused(tmp_path, texts, references, ids, said: str) -> None:
    systems = [("ours", scored(tmp_path / "a", BY_A)), ("theirs", scored(tmp_path / "b", texts, references, ids=ids))]
    with pytest.raises(DataError, match=said):
        shown(systems)


def test_several_examinations_of_a_study_are_told_apart(tmp_path: Path) -> None:
    folder = scored(tmp_path / "a", {"sn": "x ."}, study="s1", ids={"sn": "sn-e1"})
    cases = pl.read_parquet(folder / "cases.parquet")
    pl.concat([cases, cases.with_columns(record_id=pl.lit("sn-e2"))]).write_parquet(folder / "cases.parquet")
    with pytest.raises(DataError, match="several reports of s1 in context sn, sn-e1 and sn-e2; name one examination"):
        shown([("a", folder)] * 2, contexts=("sn",))
    assert shown([("a", folder)] * 2, "e2", ("sn",)).study == "e2"


def test_a_study_that_is_not_there_writes_nothing(both, tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("record_id,report\nsn-1,x\n")
    with pytest.raises(DataError, match=r"no report of study a/\.\./\.\./x in context sn; name another study"):
        shown(both, "a/../../x")
    with pytest.raises(
        DataError, match=r"has no references, and nowhere/records\.parquet does not exist; name the corpus"
    ):
        shown([both[0], ("o", tmp_path / "o.csv")])
    with pytest.raises(DataError, match="holds no scored cases"):
        shown([both[0], ("o", tmp_path / "no such file")])


@pytest.mark.parametrize("study", ["a/../../x", "../x", "/etc/x", "..", "x\0y", "<script>"])
def test_whatever_the_study_is_called_its_files_stay_in_their_folder(tmp_path: Path, study: str) -> None:
    systems = [("<b>", scored(tmp_path / "a", BY_A, study=study)), ("&", scored(tmp_path / "b", BY_B, study=study))]
    before = sorted(tmp_path.rglob("*"))
    page, svg = write_side_by_side(shown(systems, study), tmp_path / "out" / "in")
    assert {page.parent, svg.parent} == {tmp_path / "out" / "in"}
    assert sorted({*tmp_path.rglob("*")} - {*before}) == sorted([tmp_path / "out", page.parent, page, svg])
    assert "<b>" not in page.read_text() and "<script" not in page.read_text()
    names = [element.text for element in ElementTree.parse(svg).iter(f"{SVG}text")]
    assert "<b>" in names and "&" in names


def test_drawings_of_the_pages_example_cases_stay_in_their_folder_too(tmp_path: Path) -> None:
    Image.linear_gradient("L").resize((64, 64)).save(tmp_path / "x.png")
    features = SimpleNamespace(features=SimpleNamespace(depths=(4, 12)))
    results: Any = SimpleNamespace(image_paths={"i": str(tmp_path / "x.png")}, params=features)
    drawing = _view("a/../../x", "frontal", "i", results, np.full((4, 2), 0.5)).maps
    assert drawing is not None and Path(drawing.name).parts == (drawing.name,)
    assert drawing.name.startswith("case-a_") and drawing.name.endswith("-frontal")


def drawn(reading: Reading, views=()) -> ElementTree.Element:
    return ElementTree.fromstring(draw(SideBySide("s1", ("A", "B"), tuple(views), (reading,), ())))


def test_the_drawing_tells_support_by_line_and_wording_by_letter_as_well_as_by_colour() -> None:
    cut = [pieces(text, "generated", statements(REFERENCE["sw"])) for text in (BY_A["sw"], BY_B["sw"])]
    cut = [pieces(REFERENCE["sw"], "reference", statements(BY_A["sw"])), *cut]
    root = drawn(Reading("sw", "no edema .", tuple(cut)), [View("frontal", "data:image/jpeg;base64,x", 1.5)])
    texts = {element.text: element for element in root.iter(f"{SVG}text")}
    assert {"Reference", "A", "B", f"SW: {SOURCES['sw']}", "no edema ."} <= texts.keys()
    assert texts["unchanged"].get("font-style") == texts["in italics"].get("font-style") == "italic"
    assert texts["heart is enlarged"].get("font-style") is None
    [image] = root.iter(f"{SVG}image")
    assert float(image.get("height", 0)) == 1.5 * float(image.get("width", 0))
    waves = [path for path in root.iter(f"{SVG}path") if "q" in path.get("d", "")]
    dashes = [path for path in root.iter(f"{SVG}path") if path.get("stroke-dasharray") == "4 2"]
    assert len(waves) == 3 and len(dashes) == 2  # in the texts and once in the legend
    width, height = (float(root.get(name, 0)) for name in ("width", "height"))
    for element in [*texts.values(), *root.iter(f"{SVG}rect")]:
        right = float(element.get("x", 0)) + float(element.get("textLength") or element.get("width") or 0)
        assert 0 <= right <= width and 0 <= float(element.get("y", 0)) <= height


@given(st.lists(st.tuples(st.text("ab .\n,\x00é", max_size=30), st.booleans()), max_size=8))
def test_lines_hold_all_words_in_order_and_none_is_too_wide(parts) -> None:
    given_ = [Piece(text, "matching" if marked else None) for text, marked in parts]
    placed = runs(given_, 80)
    whole = "".join(text for text, _ in parts).replace("\x00", "\N{REPLACEMENT CHARACTER}")
    assert "".join("".join(run.text for run in placed).split()) == "".join(whole.split())
    assert [run.line for run in placed] == sorted(run.line for run in placed)
    for run in placed:
        assert any(run.piece is piece for piece in given_) and run.start < run.end
        if " " in run.text:
            assert run.end <= 80
        font: ImageFont.FreeTypeFont = marked_svg._font(False)
        assert run.end - run.start == pytest.approx(font.getlength(run.text), abs=1)


@needs_browser
@pytest.mark.parametrize("width", [420, 1400])
def test_the_page_in_a_browser(both, tmp_path: Path, width: int) -> None:
    page, _ = write_side_by_side(shown(both), tmp_path / "out")
    seen = visit(page, width, tmp_path / "visit")
    assert (seen.console, seen.requests) == ([], [])
    assert overflow(page, width, tmp_path / "width") <= 0
