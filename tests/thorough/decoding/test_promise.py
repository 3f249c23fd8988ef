"""A promise holds as often as it says, by simulation on the populations of bench/promise_populations.py."""

import math
import runpy

import pytest

from tests.support.repository import ROOT

BENCH = runpy.run_path(str(ROOT / "bench" / "promise_populations.py"))
#: The most that may break a promise, by confidence: its error, and .02 (.015 at 99 %).
CALIBRATIONS, BARS = 500, {0.9: 0.12, 0.95: 0.07, 0.99: 0.025}


@pytest.mark.parametrize("patients", [60, 100, 300])
@pytest.mark.parametrize("name", BENCH["POPULATIONS"])
def test_the_promise_is_broken_as_seldom_as_it_says(name: str, patients: int) -> None:
    """At most the bar and two standard errors of the simulation; at 300 patients some, as a bound that states nothing
    is none."""
    shares = dict(zip(BARS, BENCH["broken"](BENCH["POPULATIONS"][name], patients, CALIBRATIONS), strict=True))
    for confidence, bar in BARS.items():
        assert shares[confidence] <= bar + 2 * math.sqrt(bar * (1 - bar) / CALIBRATIONS)
    assert patients < 300 or shares[0.9] > 0
