"""Coverings and verdicts of the probe: control regions, pictures, tables of boxes, and what rates mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.core.errors import DataError
from pacer.metrics.probe.covering import Box, control_region, covered, read_boxes
from pacer.metrics.probe.make import COVERED, ELSEWHERE, GIVEN, SAME_FINDING
from pacer.metrics.probe.verdicts import MEAN_PICTURE, NOT_THERE, THERE, UNCLEAR, WITHOUT, finding_uses, records_needed
from pacer.metrics.statistics.bootstrap import Difference

LEFT, RIGHT = Box(0.6, 0.2, 0.25, 0.3), Box(0.15, 0.2, 0.25, 0.3)
#: Boxes of the finding, of other findings, frontal view or not -> the control region; None: there is none; True: one
#: that is not the mirror image.
REGIONS = {
    "the other side is free": ([LEFT], [], True, [RIGHT]),
    "two parts on one side": ([LEFT, Box(0.7, 0.6, 0.1, 0.1)], [], True, [RIGHT, Box(0.2, 0.6, 0.1, 0.1)]),
    "another finding on the other side": ([LEFT], [Box(0.2, 0.3, 0.1, 0.1)], True, True),
    "both sides": ([LEFT, RIGHT], [], True, None),
    "in the middle": ([Box(0.4, 0.4, 0.2, 0.2)], [], True, None),
    "in the middle of the lateral view": ([Box(0.4, 0.4, 0.2, 0.2)], [], False, True),
    "too large": ([Box(0.1, 0.1, 0.8, 0.7)], [], False, None),
}


def shared(one: Box, other: Box) -> float:
    across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    return max(across, 0) * max(down, 0)


@pytest.mark.parametrize("case", REGIONS)
def test_a_control_region_is_as_large_and_elsewhere(case: str) -> None:
    boxes, others, frontal, expected = REGIONS[case]
    found = control_region(boxes, others, frontal=frontal)
    if expected is None or found is None:
        assert found is expected
        return
    if expected is not True:
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert [box[2:] for box in found] == [box[2:] for box in boxes]
    assert max(shared(one, other) for one in found for other in (*boxes, *others)) < 1e-9


def test_a_covered_region_has_the_grey_of_its_ring_and_the_rest_stays() -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (100, 100)).astype(np.uint8)
    pixels[26:74, 26:74], pixels[30:70, 30:70] = 100, 250
    found = np.asarray(covered(Image.fromarray(pixels), [Box(0.3, 0.3, 0.4, 0.4)]))
    assert (found[30:70, 30:70] == 100).all()
    outside = np.ones_like(pixels, bool)
    outside[26:74, 26:74] = False
    assert (found[outside] == pixels[outside]).all()


#: Rows of a table of boxes -> what is said.
BAD_BOXES = {
    "image,finding,x,y,width\na.png,edema,0,0,1": "has no column height",
    "image,finding,x,y,width,height\na.png,scoliosis,0,0,1,1": "line 2: 'scoliosis' is not a finding; choose from",
    "image,finding,x,y,width,height\na.png,edema,12,40,100,80": "line 2: x, y, width and height must be shares",
    "image,finding,x,y,width,height\na.png,edema,0,0,,1": "line 2: x, y, width and height must be shares",
    "image,finding,x,y,width,height\nb.png,edema,0,0,1,1": "no box is on an image of the records; .* such as a.png",
}


@pytest.mark.parametrize("text", BAD_BOXES)
def test_boxes_that_cannot_be_meant_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text(text + "\n")
    with pytest.raises(DataError, match=BAD_BOXES[text]):
        read_boxes(tmp_path / "boxes.csv", {"a.png"})


def test_findings_are_named_as_people_write_them(tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text("finding,image,x,y,width,height,who\nPleural Effusions,a.png,0,.5,1,.5,me\n")
    assert read_boxes(tmp_path / "boxes.csv", {"a.png"}) == {"a.png": {"pleural effusion": [Box(0, 0.5, 1, 0.5)]}}


CHANGES = (GIVEN, SAME_FINDING, ELSEWHERE, COVERED, "another_radiograph", MEAN_PICTURE)
#: Rates at which reports affirm the finding, by change, and patients -> the verdict; None: no such change.
VERDICTS = {
    "reads it": ((0.9, 0.9, 0.9, 0.1, 0.1, 0.1), 150, THERE),
    "reads it, few patients": ((0.9, 0.9, 0.9, 0.5, 0.5, 0.5), 12, UNCLEAR),
    "reads another place": ((0.95, 0.95, 0.95, 0.95, 0.1, 0.1), 300, NOT_THERE),
    "reads both places": ((0.9, 0.9, 0.6, 0.6, 0.1, 0.1), 60, UNCLEAR),
    "sees it better when covered": ((0.9, 0.9, 0.4, 0.9, 0.1, 0.1), 150, UNCLEAR),
    "always says it": ((1.0, 1.0, 1.0, 1.0, 1.0, 1.0), 40, WITHOUT),
    "always says it, 28 records": ((1.0, 1.0, 1.0, 1.0, 1.0, 1.0), 28, UNCLEAR),
    "hardly ever says it": ((0.05, 0.05, 0.05, 0.05, 0.05, 0.05), 300, UNCLEAR),
    "says it by chance": ((0.4, 0.4, 0.4, 0.4, 0.4, 0.4), 900, WITHOUT),
    "reads it, no region": ((0.9, 0.9, None, None, 0.1, 0.1), 150, UNCLEAR),
}


def key(rates: tuple[float | None, ...], patients: int) -> pl.DataFrame:
    """As many records with the finding, and as many without it, whose pictures the others get."""
    draw, rows = np.random.default_rng(0), []
    for change, rate in zip(CHANGES, rates, strict=True):
        affirmed = draw.random(patients) < (rate or 0)
        for number in range(patients) if rate is not None else ():
            row = {"twin": change, "finding": "edema" if change in CHANGES[1:4] else None, "context": "sn"}
            row |= {"record_id": f"r{number}", "study_id": f"s{number}", "subject_id": f"p{number}"}
            row |= {"frontal": f"lacks{number}" if change == "another_radiograph" else f"has{number}"}
            row |= {"reference_positive": ["edema"], "reference_uncertain": []}
            rows.append(row | {"report_positive": ["edema"] if affirmed[number] else []})
            if change == GIVEN:
                other = {name: f"x{row[name]}" for name in ("record_id", "study_id", "subject_id")}
                rows.append(row | other | {"frontal": f"lacks{number}", "reference_positive": []})
    texts = dict.fromkeys(("reference_positive", "reference_uncertain", "report_positive"), pl.List(pl.String))
    return pl.DataFrame(rows, schema_overrides=texts, infer_schema_length=None)


@pytest.mark.parametrize("case", VERDICTS)
def test_rates_lead_to_a_verdict(case: str) -> None:
    rates, patients, expected = VERDICTS[case]
    [found] = finding_uses(key(rates, patients))
    assert (found.finding, found.records, found.verdict) == ("edema", patients, expected)
    assert ("place" in found.effects) == (rates[2] is not None)


def test_another_patients_picture_counts_only_where_that_patient_lacks_the_finding() -> None:
    rows = key((0.9, 0.9, 0.9, 0.1, 0.1, 0.1), 100).with_columns(
        frontal=pl.when(twin="another_radiograph").then(pl.lit("has1")).otherwise("frontal")
    )
    [found] = finding_uses(rows)
    assert "picture" not in found.effects and found.verdict == THERE


@pytest.mark.parametrize(
    ("half", "records", "tests", "expected"),
    # (quantiles 2.8905 and .8416 of thirteen tests; 1.96 and .8416 of one) squared, times the variance, over .04
    [(0.1, 100, 13, 91), (0.01, 100, 13, 56), (0.1, 100, 1, 52)],
)
def test_records_that_would_show_an_effect(half: float, records: int, tests: int, expected: int) -> None:
    assert records_needed(Difference(0, 0, 0, -half, half, 1, 0), records, tests) == expected
