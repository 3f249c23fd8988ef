"""What supports a statement on the page, and its pictures: radiographs, maps of depth weights on
them, charts."""

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from pacer.core.anchor import read_list
from pacer.core.errors import DataError
from pacer.metrics.ledger import compared, read_findings
from pacer.reporting import charts
from pacer.reporting.html import LONGEST_EDGE, data_uri, read_grey, routing_overlay, square_overlay
from pacer.reporting.marks import beside, departures
from tests.support.cases import listed_cases

SENTENCES = (
    "no evidence of pneumothorax .",
    "there is a small left pleural effusion .",
    "no pleural effusion .",
    "the heart is not enlarged .",
    "possible pneumonia at the right base .",
    "a picc ends in the svc .",
    "no pneumothorax , effusion or consolidation .",
    "the study is of good quality .",
    "effusion on the left , none on the right .",
    "right effusion .",
    "large right effusion .",
    "pneumonia .",
)
REPORTS = st.lists(st.sampled_from(SENTENCES), max_size=6).map(" ".join)


@pytest.mark.parametrize(
    ("reference", "report", "in_reference", "in_report"), listed_cases(__file__, "marks")
)
def test_phrases_are_marked_by_what_the_other_text_says(
    reference: str, report: str, in_reference: dict[str, str], in_report: dict[str, str]
):
    for found, expected in zip(beside(reference, report), (in_reference, in_report), strict=True):
        assert {span.text: " ".join(span.marks) for span in found if span.marks} == expected


@example("there is a small left pleural effusion .", "right effusion .")
@given(REPORTS, REPORTS)
def test_spans_are_the_texts_and_have_the_verdicts_of_the_ledger(reference: str, report: str):
    rows = compared(read_findings([reference]), read_findings([report])).to_dicts()
    for text, found, side, unstated in zip(
        (reference, report),
        beside(reference, report),
        ("reference", "report"),
        ("missed", "invented"),
        strict=True,
    ):
        assert "".join(span.text for span in found) == text
        marks = {mark for span in found for mark in span.marks} - {"longitudinal"}
        stated = [row for row in rows if row[f"{side}_state"] is not None]
        silent = [row for row in stated if None in (row["reference_state"], row["report_state"])]
        both = {row["verdict"] for row in stated if row not in silent}
        assert (unstated in marks) == bool(silent)
        assert ("opposite" in marks) == ("opposite" in both)
        assert bool({"partly", "wrong-side"} & marks) == ("partly" in both)
        assert ("matching" in marks) <= ("correct" in both) and (marks != set()) == bool(stated)
        assert all(bool(span.marks) == bool(span.tooltip) for span in found)


@pytest.mark.parametrize(
    ("reference", "report", "phrase", "tooltip"), listed_cases(__file__, "tooltips")
)
def test_a_tooltip_names_both_statements(reference: str, report: str, phrase: str, tooltip: str):
    _, found = beside(reference, report)
    assert {span.text: span.tooltip for span in found if span.marks} == {phrase: tooltip}


@pytest.mark.parametrize(("listed", "report", "expected"), listed_cases(__file__, "departures"))
def test_departures_from_a_commitment_are_in_words(listed: str, report: str, expected: list[str]):
    assert departures(read_list(listed, sides=True), report) == expected


def picture(address: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))).astype(
        int
    )


def test_radiographs_are_grey_and_reduced_and_a_missing_one_is_named(tmp_path: Path):
    Image.linear_gradient("L").resize((1000, 500)).convert("RGB").save(tmp_path / "wide.png")
    assert read_grey(tmp_path / "wide.png").size == (LONGEST_EDGE, LONGEST_EDGE // 2)
    assert read_grey(tmp_path / "wide.png").mode == "L"
    with pytest.raises(DataError, match=r"absent\.jpg cannot be opened as an image"):
        read_grey(tmp_path / "absent.jpg")


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P"])
def test_addresses_hold_the_image(mode: str):
    address = data_uri(Image.new("L", (8, 6), 200).convert(mode))
    assert address.startswith("data:image/jpeg;base64,")
    assert picture(address).shape[:2] == (6, 8) and np.abs(picture(address) - 200).max() <= 2


def test_a_map_is_warm_where_a_patch_takes_more_of_a_depth_and_clear_at_the_even_share():
    weights = np.full((2, 4, 2), 0.5, np.float32)
    weights[0, 3], weights[1, 0] = (0.9, 0.1), (0.2, 0.8)
    overlay = routing_overlay(Image.new("L", (56, 28)), weights, (3, 6))
    assert [(one.depth, round(one.mean, 4)) for one in overlay.maps] == [(3, 0.5125), (6, 0.4875)]
    assert (
        overlay.even == 0.5
        and overlay.farthest == pytest.approx(0.4)
        and picture(overlay.address).shape == (28, 56)
    )
    first, second = (picture(one.address) for one in overlay.maps)
    assert first.shape == (2, 4, 4)  # a pixel a patch
    top_right, bottom_left, middle = (0, 3), (1, 0), (0, 1)
    assert first[top_right][0] > first[top_right][2] and second[top_right][2] > second[top_right][0]
    assert first[bottom_left][2] > first[bottom_left][0]
    assert first[top_right][3] > first[bottom_left][3] > first[middle][3] == 0
    even = routing_overlay(Image.new("L", (8, 8)), np.full((2, 4, 2), 0.5, np.float32), (3, 6))
    assert even.farthest == 1e-3 and not any(
        picture(one.address)[..., 3].any() for one in even.maps
    )


def test_the_patch_grid_spans_the_middle_square():
    wide = Image.new("L", (300, 100), 0)
    wide.paste(255, (100, 0, 200, 100))
    weights = np.full((4, 2), 0.5, dtype=np.float32)
    weights[1] = (0.9, 0.1)
    overlay = square_overlay(wide, weights, (4, 12))
    shown = picture(overlay.address)
    assert shown.shape == (100, 100) and shown.min() > 200
    assert picture(overlay.maps[0].address)[..., 3].tolist() == [
        [0, 153],
        [0, 0],
    ]  # patches in rows


def test_charts_have_the_colours_of_the_page():
    style = Path(charts.__file__).with_name("figures.mplstyle").read_text()
    assert {f"#{colour}" for colour in re.findall(r"\b[0-9a-f]{6}\b", style)} <= set(
        charts.LIGHT.values()
    )
