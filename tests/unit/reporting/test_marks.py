"""What supports a statement on the page, and its pictures: radiographs, maps of depth weights on
them, charts."""

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from pacer.core.anchor import Anchor
from pacer.core.errors import DataError
from pacer.reporting import charts
from pacer.reporting.html import LONGEST_EDGE, data_uri, read_grey, routing_overlay, square_overlay
from pacer.reporting.marks import Other, spans, statements_in, statements_of, verdicts
from pacer.text.rules import extract_anchor
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
    ("report", "compared_with", "other", "first", "expected"), listed_cases(__file__, "marks")
)
def test_phrases_are_marked_by_what_the_other_text_says(
    report: str,
    compared_with: Other,
    other: str | None,
    first: str | None,
    expected: dict[str, str],
):
    own = extract_anchor(other) if other is not None and compared_with == "commitment" else None
    against = (
        {} if other is None else {"": statements_of(other) if own is None else statements_in(own)}
    )
    known = None if first is None else statements_of(first)
    found = {
        s.text: " ".join(s.marks)
        for s in spans(report, compared_with, against, known, own)
        if s.marks
    }
    assert {text: found.get(text) for text in expected} == expected
    assert len(expected) == len(found) or any(
        "longitudinal" in marks for marks in expected.values()
    )


@example("right effusion .", "", "there is a small left pleural effusion .")
@given(REPORTS, REPORTS, st.none() | REPORTS)
def test_spans_are_the_report_and_agree_with_the_other_text(
    report: str, other: str, first: str | None
):
    own, theirs = statements_of(report), statements_of(other)
    before = None if first is None else statements_of(first)
    found = spans(report, "reference", {"": theirs}, before)
    marks = {mark for span in found for mark in span.marks}
    assert "".join(span.text for span in found) == report
    compared = {
        "matching",
        "unverified",
        "opposite",
        "wrong-side",
        "less-certain",
        "other-severity",
    }
    assert marks <= compared | {"longitudinal", "changed"}
    assert all(len(compared & {*span.marks}) <= 1 for span in found)
    rows = verdicts(theirs, own)
    stated = [row for row in rows.values() if row["report_state"] is not None]
    assert bool(compared & marks) == bool(stated)
    assert ("opposite" in marks) == any(row["verdict"] == "opposite" for row in stated)
    assert ("less-certain" in marks) == any("state" in row["wrong"] for row in stated)
    silent = [row for row in stated if row["reference_state"] is None]
    assert ("unverified" in marks) == bool(silent)
    if "matching" not in marks:
        assert not any(row["verdict"] == "correct" for row in stated)
    if first is None or (report == first):
        assert "changed" not in marks


@pytest.mark.parametrize(
    ("against", "known", "unknown"),
    [
        ("commitment", "in the list of findings", "not in the list of findings"),
        ("reference", "in both reports", "not in the reference"),
        ("generated", "in both reports; partly: severity", "in the reference only"),
    ],
)
def test_a_phrase_says_which_text_has_it(against: Other, known: str, unknown: str):
    effusion = Anchor.of(positive=["pleural effusion"])
    found = spans(
        "small effusion . possible edema .",
        against,
        {"": statements_in(effusion)},
        commitment=effusion,
    )
    told = ["pleural effusion: positive; " + known, "edema: uncertain; " + unknown]
    assert [span.tooltip for span in found if span.marks] == told


@pytest.mark.parametrize(
    ("report", "compared_with", "other", "expected"), listed_cases(__file__, "sides")
)
def test_a_finding_on_another_side_is_marked_with_both_sides(
    report: str, compared_with: Other, other: str, expected: dict[str, str]
):
    found = [
        span
        for span in spans(report, compared_with, {"": statements_of(other)})
        if "wrong-side" in span.marks
    ]
    assert {span.text: span.tooltip.partition("; side: ")[2] for span in found} == expected
    assert not any({"matching", "unverified", "reference-only"} & {*span.marks} for span in found)


@pytest.mark.parametrize(
    ("described", "here"), [("right", True), ("bilateral", True), ("left", False), ("mild", False)]
)
def test_a_side_that_the_reports_own_commitment_does_not_have_is_marked(described: str, here: bool):
    own = Anchor.of_lists(
        {"positive": ["pleural effusion"], "attributes": [f"{described} pleural effusion"]}
    )
    words = f"side: left here, {described} in the list of findings"
    alone = next(
        span
        for span in spans("left effusion .", "commitment", {"": statements_in(own)}, None, own)
        if span.text == "effusion"
    )
    assert [*alone.marks] == ["wrong-side" if here else "matching"] and (
        words in alone.tooltip
    ) is here
    beside = next(
        s
        for s in spans(
            "left effusion .", "reference", {"": statements_of("left effusion .")}, None, own
        )
        if s.marks
    )
    assert [*beside.marks] == ["matching", *["contradicts"] * here] and (
        words in beside.tooltip
    ) is here


def test_a_reference_is_on_the_wrong_side_where_no_system_has_its_side():
    systems = {"A": statements_of("right effusion ."), "B": statements_of("left effusion .")}
    for names, marks, who in (
        ("A", ["wrong-side"], "the same in no report"),
        ("AB", ["matching"], "the same in B"),
    ):
        named = {name: systems[name] for name in names}
        [found] = [span for span in spans("left effusion .", "generated", named) if span.marks]
        assert [*found.marks] == marks and found.tooltip.endswith(who)


@pytest.mark.parametrize(("one", "other", "same"), listed_cases(__file__, "directions"))
def test_wording_of_one_direction_is_the_same_whatever_its_form(one: str, other: str, same: bool):
    kinds = [statements_of(text).comparisons for text in (one, other)]
    assert all(kinds) and (kinds[0] == kinds[1]) is same


@pytest.mark.parametrize(("report", "expected"), listed_cases(__file__, "contradictions"))
@pytest.mark.parametrize("against", ["reference", "commitment"])
def test_what_the_reports_own_commitment_says_otherwise_is_marked(
    report: str, expected: list, against: Any
):
    own, other = (
        Anchor.of(positive=["pneumothorax"], negative=["pleural effusion"]),
        statements_of("small effusion ."),
    )
    other = statements_in(own) if against == "commitment" else other
    found = [
        span
        for span in spans(report, against, {"": other}, None, own)
        if "contradicts" in span.marks
    ]
    assert sorted({span.text for span in found}) == expected
    assert all("the list of findings says the opposite" in span.tooltip for span in found)


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
    overlay = routing_overlay("frontal", Image.new("L", (56, 28)), weights, (3, 6))
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
    even = routing_overlay(
        "frontal", Image.new("L", (8, 8)), np.full((2, 4, 2), 0.5, np.float32), (3, 6)
    )
    assert even.farthest == 1e-3 and not any(
        picture(one.address)[..., 3].any() for one in even.maps
    )


def test_the_patch_grid_spans_the_middle_square():
    wide = Image.new("L", (300, 100), 0)
    wide.paste(255, (100, 0, 200, 100))
    weights = np.full((4, 2), 0.5, dtype=np.float32)
    weights[1] = (0.9, 0.1)
    overlay = square_overlay("frontal", wide, weights, (4, 12))
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
