"""Coverings and verdicts of the probe: control regions, pictures, tables of boxes, and what rates
mean."""

from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.extras.probe.make import (
    COVERED,
    ELSEWHERE,
    GIVEN,
    Box,
    control_region,
    covered,
    read_boxes,
)
from pacer.extras.probe.use import (
    MEAN_PICTURE,
    Verdict,
    _no_effect,
    finding_uses,
)
from tests.support.cases import listed_cases


def shared(one: Box, other: Box) -> float:
    across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    return max(across, 0) * max(down, 0)


@pytest.mark.parametrize(
    ("boxes", "others", "frontal", "expected"), listed_cases(__file__, "regions")
)
def test_a_control_region_is_as_large_and_elsewhere(
    boxes: list, others: list, frontal: bool, expected: Any
) -> None:
    boxes, others = ([Box(*one) for one in group] for group in (boxes, others))
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


@pytest.mark.parametrize(("text", "problem"), listed_cases(__file__, "bad_boxes"))
def test_boxes_that_cannot_be_meant_are_refused(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text(text + "\n")
    with pytest.raises(DataError, match=problem):
        read_boxes(tmp_path / "boxes.csv", {"a.png"})


def test_findings_are_named_as_people_write_them(tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text(
        "finding,image,x,y,width,height,who\nPleural Effusions,a.png,0,.5,1,.5,me\n"
    )
    assert read_boxes(tmp_path / "boxes.csv", {"a.png"}) == {
        "a.png": {"pleural effusion": [Box(0, 0.5, 1, 0.5)]}
    }


CHANGES = (GIVEN, ELSEWHERE, COVERED, "another_radiograph", MEAN_PICTURE)


def key(rates: Sequence[float | None], patients: int) -> pl.DataFrame:
    """As many records with the finding, and as many without it, whose pictures the others get."""
    draw, rows = np.random.default_rng(0), []
    for change, rate in zip(CHANGES, rates, strict=True):
        affirmed = draw.random(patients) < (rate or 0)
        for number in range(patients) if rate is not None else ():
            row = {
                "twin": change,
                "finding": "edema" if change in (ELSEWHERE, COVERED) else None,
                "context": "sn",
            }
            row |= {"record_id": f"r{number}", "study_id": f"s{number}", "subject_id": f"p{number}"}
            row |= {
                "frontal": f"lacks{number}" if change == "another_radiograph" else f"has{number}"
            }
            row |= {"reference_positive": ["edema"], "reference_uncertain": []}
            rows.append(row | {"report_positive": ["edema"] if affirmed[number] else []})
            if change == GIVEN:
                other = {name: f"x{row[name]}" for name in ("record_id", "study_id", "subject_id")}
                rows.append(row | other | {"frontal": f"lacks{number}", "reference_positive": []})
    texts = dict.fromkeys(
        ("reference_positive", "reference_uncertain", "report_positive"), pl.List(pl.String)
    )
    return pl.DataFrame(rows, schema_overrides=texts, infer_schema_length=None)


@pytest.mark.parametrize(("rates", "patients", "expected"), listed_cases(__file__, "verdicts"))
def test_rates_lead_to_a_verdict(rates: list[float | None], patients: int, expected: str) -> None:
    [found] = finding_uses(key(rates, patients))
    assert (found.finding, found.records, found.verdict) == ("edema", patients, expected)
    assert ("place" in found.effects) == (rates[1] is not None)


@pytest.mark.parametrize(
    ("patients", "apart", "findings", "expected"), listed_cases(__file__, "no_effect")
)
def test_no_effect_is_shown_only_where_one_of_a_tenth_is_excluded(
    patients: int, apart: int, findings: int, expected: bool
) -> None:
    """Reports of ``apart`` patients lose the finding when it is covered; several findings are
    tested."""
    rows = key([1.0, 1.0, 1.0, 0.1, 0.1], patients)
    lost = (pl.col("twin") == COVERED) & pl.col("record_id").is_in(
        [f"r{number}" for number in range(apart)]
    )
    rows = rows.with_columns(report_positive=pl.when(lost).then([]).otherwise("report_positive"))
    named = [
        rows.with_columns(pl.col("record_id", "study_id", "subject_id", "frontal") + name)
        for name in FINDINGS
    ]
    renamed = [
        part.with_columns(
            pl.col(column).list.eval(pl.element().replace("edema", name))
            for column in ("reference_positive", "report_positive")
        ).with_columns(pl.col("finding").replace("edema", name))
        for part, name in zip(named, FINDINGS, strict=True)
    ]
    found = finding_uses(pl.concat(renamed[:findings]))
    assert [one.verdict == Verdict.NOT_THERE for one in found] == [expected] * findings


@pytest.mark.parametrize(("more", "fewer"), [(9, 4), (9, 9), (20, 3), (12, 0)])
def test_no_effect_has_the_p_value_of_the_score_test(more: int, fewer: int) -> None:
    """With the likelihood of paired proportions at its largest under a difference of .1, by
    search."""
    columns = {
        "a": [1.0] * more + [0.0] * (100 - more),
        "b": [0.0] * more + [1.0] * fewer + [0.0] * (100 - more - fewer),
    }
    q = np.linspace(1e-9, 0.45 - 1e-9, 100_001)
    fit = more * np.log(q + 0.1) + fewer * np.log(q) + (100 - more - fewer) * np.log(0.9 - 2 * q)
    z = (more - fewer - 10) / np.sqrt(100 * (2 * q[fit.argmax()] + 0.09))
    part = pl.DataFrame(columns).with_columns(unit=pl.int_range(pl.len()))
    assert _no_effect(part, "a", "b") == pytest.approx(NormalDist().cdf(z), abs=1e-4)


def test_records_of_one_patient_are_no_evidence_of_their_own() -> None:
    rows = key([1.0, 1.0, 1.0, 0.1, 0.1], 60)
    assert finding_uses(rows)[0].verdict == Verdict.NOT_THERE
    patient = pl.col("subject_id").str.extract(r"(\d+)$").cast(pl.Int64) % 30
    fewer = rows.with_columns(
        subject_id=pl.format("{}{}", pl.col("subject_id").str.head(1), patient)
    )
    assert finding_uses(fewer)[0].verdict == Verdict.UNCLEAR


def test_another_patients_picture_counts_only_where_that_patient_lacks_the_finding() -> None:
    rows = key((0.9, 0.9, 0.1, 0.1, 0.1), 100).with_columns(
        frontal=pl.when(twin="another_radiograph").then(pl.lit("has1")).otherwise("frontal")
    )
    [found] = finding_uses(rows)
    assert "picture" not in found.effects and found.verdict == Verdict.THERE
