"""The phantom's reports affirm and name again about as much as real ones."""

from math import sqrt

import pytest
import rates

from pacer.core.findings import FINDINGS


@pytest.fixture(scope="module")
def measured() -> rates.Rates:
    return rates.phantom_rates(seed=340, patients=10_000)


def test_a_previous_report_knows_half_of_the_next(measured) -> None:
    assert 0.44 <= measured.copied_f1 <= 0.52


def test_three_in_ten_reports_affirm_nothing(measured) -> None:
    assert 0.25 <= measured.none <= 0.35


@pytest.mark.parametrize("finding", FINDINGS)
def test_findings_are_named_again_as_often_as_planned(measured, finding) -> None:
    share, pairs = measured.again[finding], measured.pairs[finding]
    planned = rates.sources()["findings"][finding]
    assert planned["again"] <= planned["target"] <= planned["again"] + 0.15
    assert abs(share - planned["target"]) <= max(0.05, 2 * sqrt(share * (1 - share) / pairs))
