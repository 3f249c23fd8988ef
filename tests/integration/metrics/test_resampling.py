"""Resampled METEOR against the program; the bootstrap against a known truth."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pacer.comparison import statistics
from pacer.comparison.resampling import Pair, differences, sums_by_unit

WORDS = ["the", "heart", "lungs", "is", "clear", "no", "effusions", "effusion", "enlarged", "enlargement", "."]


def texts(seed: int, count: int = 40) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(0, 25))) for _ in range(count)]


def resamples(seed: int, count: int) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [np.arange(count), *(draw.integers(0, count, 25) for _ in range(4))]


def test_meteor_of_any_resample_equals_the_program(meteor):
    references, hypotheses = texts(1), texts(2)
    hypotheses[:8] = references[:8]  # perfect matches are counted in a way of their own
    rows = statistics.meteor_statistics(meteor.score(references, hypotheses).statistics)
    each = meteor.score(references, hypotheses).rows
    assert statistics.meteor(rows) == pytest.approx(each, abs=1e-12)
    for chosen in resamples(1, len(rows)):
        total = meteor.score([references[row] for row in chosen], [hypotheses[row] for row in chosen]).total
        assert statistics.meteor(rows[chosen].sum(axis=0)) == pytest.approx(total, abs=1e-12)


def test_the_bootstrap_covers_the_truth():
    """Samples of 80 patients with 3 alike examinations each: 95 % intervals hold the true difference about 95 times in
    100 when patients are resampled, and clearly less often when examinations are."""
    draw = np.random.default_rng(0)
    truth, covered = 0.3, {"patients": 0, "examinations": 0}
    patients = np.repeat(np.arange(80), 3)
    for sample in range(200):
        gaps = truth + draw.standard_normal(80)[patients] + 0.2 * draw.standard_normal(240)
        rows = statistics.mean_statistics(np.zeros(240)), statistics.mean_statistics(gaps)
        for unit, codes in (("patients", patients), ("examinations", np.arange(240))):
            pair = Pair(*(sums_by_unit(part, codes, int(codes.max()) + 1) for part in rows), statistics.mean)
            found = differences({"sn": {"s": pair}}, 300, sample)["sn"]["s"]
            covered[unit] += found.low <= truth <= found.high
    assert 180 <= covered["patients"] <= 198
    assert covered["examinations"] < 165
