"""What the page says of a result: the report against its commitment, and everything escaped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.commitments.anchor import Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.metrics import commitments as metrics
from pacer.serving import view
from pacer.serving.case import Result
from pacer.serving.reporter import Reporter
from tests.support.cases import listed_cases

REPORT = "There is a small pleural effusion. No pneumothorax; possible edema. The hila are normal."
COMMITMENT = Anchor.of(positive=["pleural effusion"], negative=["pneumothorax", "fracture"], uncertain=[])


@pytest.fixture(scope="module")
def result(reporter: Reporter) -> Result:
    return reporter(Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 70), dtype=np.uint8)))


def test_what_stands_in_a_report_is_text_on_the_page(result: Result) -> None:
    bad = "<script>alert(1)</script> effusion"
    shown = view.result_page(replace(result, report=bad, commitment=COMMITMENT, notes=(bad,)))
    assert "<script" not in shown and "&lt;script&gt;" in shown
    assert "<script" not in view.problem(bad)


def test_a_report_stands_beside_its_commitment(result: Result) -> None:
    shown = view.result_page(replace(result, report=REPORT, commitment=COMMITMENT, fallback=False))
    assert ">effusion</mark>" in shown and 'class="unverified" title="edema: uncertain; not in the comm' in shown
    assert "Stated in the report, but not committed: <b>edema</b> (uncertain)." in shown
    assert "Committed, but not stated this way in the report: <b>fracture</b> (negative)." in shown
    assert "agrees with its commitment" not in shown
    raw = view.result_page(replace(result, report=REPORT, commitment=COMMITMENT, fallback=True))
    assert 'class="unverified"' not in raw and "not committed" not in raw, "no report stands after this commitment"


@pytest.mark.parametrize(("report", "departures", "contradictions"), listed_cases(__file__, "departures"))
def test_a_result_says_where_its_report_departs_from_its_commitment(
    result: Result, report: str, departures: dict[str, str | None], contradictions: list[str]
) -> None:
    """As the scores do (:mod:`pacer.metrics.commitments`), and the page in words."""
    departs = replace(result, report=report, commitment=COMMITMENT, fallback=False)
    opposite = {"positive": "negative", "negative": "positive"}
    departures |= {finding: opposite[COMMITMENT.polarity(finding) or ""] for finding in contradictions}
    assert departs.departures() == departures and departs.contradictions() == contradictions
    sides = {"anchor": COMMITMENT, "report": extract_anchor(report)}
    row = {f"{side}_{name}": [found] for side, anchor in sides.items() for name, found in anchor.as_dict().items()}
    cases = pl.DataFrame(row, schema=dict.fromkeys(row, pl.List(pl.String)))
    assert sorted(metrics.contradictions(cases)[0]) == sorted(contradictions)
    shown = view.result_page(departs)
    assert ("The report agrees with its commitment." in shown) is (not departures)
    assert shown.count("the report says the opposite)") == len(contradictions)
    assert shown.count('contradicts" title="the report says the opposite"') == len(contradictions)  # on the chip
    assert shown.count("the commitment says the opposite") == len(contradictions)  # in the report
    assert replace(departs, fallback=True).departures() == replace(departs, commitment=None).departures() == {}


def test_what_is_missing_is_said(result: Result) -> None:
    bare = view.result_page(replace(result, commitment=None, gate=None, fallback=True, truncated=True))
    assert view.result_page(result, None, False).count(" disabled>") == 13 and " disabled>" not in bare
    assert "SN: empty report: every sentence" in view.result_page(replace(result, report=""))
    assert "No report could be found" in bare and "the end may be missing" in bare
    assert "Commitment</h3>" not in bare and "Gate</h3>" not in bare and "not committed" not in bare
    one = replace(result.frontal, weights=np.ones((4, 4, 1), np.float32), depths=(3,))
    assert "only the last depth" in view.result_page(replace(result, frontal=one))
