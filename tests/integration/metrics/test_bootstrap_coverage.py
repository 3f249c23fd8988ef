"""The bootstrap against a known truth."""

from __future__ import annotations

import numpy as np

from pacer.metrics.scores import mean, mean_rows
from pacer.metrics.statistics.bootstrap import Summed, by_unit, differences


def test_the_bootstrap_covers_the_truth():
    """Samples of 80 patients with 3 alike examinations each: 95 % intervals hold the true difference about 95 times in
    100 when patients are resampled, and clearly less often when examinations are."""
    draw = np.random.default_rng(0)
    truth, covered = 0.3, {"patients": 0, "examinations": 0}
    patients = np.repeat(np.arange(80), 3)
    for sample in range(200):
        gaps = truth + draw.standard_normal(80)[patients] + 0.2 * draw.standard_normal(240)
        for unit, codes in (("patients", patients), ("examinations", np.arange(240))):
            rows = (by_unit(mean_rows(values), codes, int(codes.max()) + 1) for values in (np.zeros(240), gaps))
            sides = ({("sn", "s"): Summed(summed, mean)} for summed in rows)
            found = differences(*sides, 300, sample)["sn"]["s"]
            covered[unit] += found.low <= truth <= found.high
    assert 180 <= covered["patients"] <= 198
    assert covered["examinations"] < 165
