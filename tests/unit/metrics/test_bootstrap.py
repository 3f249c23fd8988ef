from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.metrics.clinical import averaged
from pacer.metrics.score_kinds import mean, mean_rows
from pacer.metrics.statistics.bootstrap import (
    LEAST_UNITS,
    Key,
    Summed,
    differences,
    holm,
    intervals,
)


def test_scores_without_a_denominator_are_undefined():
    nothing = np.zeros((3, 42))
    for average in ("micro", "weighted"):
        assert np.isnan(averaged(nothing.sum(axis=0), "f1", average))
    side = {("sn", "s"): Summed(nothing, partial(averaged, ratio="f1"))}
    found = differences(side, side, 50)["sn"]["s"]
    assert (found.first, found.difference, found.low, found.p) == (None,) * 4


def means(**contexts: np.ndarray) -> dict[Key, Summed]:
    """The mean of some values in each context."""
    return {(context, "s"): Summed(mean_rows(values), mean) for context, values in contexts.items()}


@given(st.integers(0, 2**31), st.integers(1, 30))
def test_identical_runs_do_not_differ(seed, units):
    values = np.random.default_rng(seed).random(units)
    run = means(sn=values, mn=values)
    found = differences(run, run, 200, seed)
    assert list(found) == ["sn", "mn", "mean"]
    for scores in found.values():
        assert (scores["s"].difference, scores["s"].p) == (0.0, 1.0)
        low, high = scores["s"].low, scores["s"].high
        assert (low, high) == (None, None) if units < LEAST_UNITS else low <= 0.0 <= high


def test_a_known_difference_is_found_and_a_resampling_is_repeatable():
    draw = np.random.default_rng(3)
    first = draw.random(200)
    runs = means(sn=first), means(sn=first + 0.02 + 0.01 * draw.standard_normal(200))
    found = differences(*runs, 500, 5)["sn"]["s"]
    assert found.p == pytest.approx(1 / 501) and found.low > 0.015 and found.high < 0.025
    assert differences(*runs, 500, 5)["sn"]["s"] == found
    assert differences(*runs, 500, 6)["sn"]["s"] != found


def test_p_values_equal_those_of_all_exchanges():
    """Eight units have 256 exchanges: the p value estimates the share of those at least as
    extreme."""
    draw = np.random.default_rng(1)
    first, second = draw.random((2, 8))
    gaps = second - first
    signs = 1 - 2 * ((np.arange(256)[:, None] >> np.arange(8)) & 1)
    exact = (np.abs((signs * gaps).mean(axis=1)) >= abs(gaps.mean()) - 1e-12).mean()
    for pair in ((first, second), (second, first)):
        found = differences(*(means(sn=values) for values in pair), 20_000)["sn"]["s"]
        assert found.p == pytest.approx(exact, abs=0.015)


def test_the_mean_over_contexts_is_the_mean_of_their_scores():
    draw = np.random.default_rng(2)
    sides = (means(sn=draw.random(30), mw=draw.random(30)) for _ in range(2))
    found = differences(*sides, 500)
    assert found["mean"]["s"].first == pytest.approx(
        (found["sn"]["s"].first + found["mw"]["s"].first) / 2
    )
    assert (
        found["mean"]["s"].high - found["mean"]["s"].low
        < found["sn"]["s"].high - found["sn"]["s"].low
    )


@pytest.mark.parametrize("counting", [LEAST_UNITS - 1, LEAST_UNITS, 60])
def test_units_without_anything_to_count_change_neither_interval_nor_number(counting):
    """The share of some findings of few patients among many: the spread is that of these patients
    alone."""
    draw = np.random.default_rng(4)
    named = draw.integers(1, 4, counting).astype(float)
    few = np.stack([draw.binomial(named.astype(int), 0.6), named], axis=1)
    among, other = (
        np.concatenate([part, np.zeros((540, 2))]) for part in (few, few[::-1] * [0, 1] + [1, 0])
    )
    one, two = ({("sn", "s"): Summed(rows, mean, (1,))} for rows in (among, other))
    found, alone = intervals(one)["sn"]["s"], intervals({("sn", "s"): Summed(few, mean)})["sn"]["s"]
    compared = differences(one, two, 200)["sn"]["s"]
    assert (compared.units, compared.counts) == (
        counting,
        (named.sum(), named.sum()),
    ) and found.value == alone.value
    if counting < LEAST_UNITS:
        assert (found.low, compared.low) == (None, None) and compared.p is not None
    else:
        assert found.high - found.low == pytest.approx(alone.high - alone.low, rel=0.15)
        assert compared.low < compared.difference < compared.high
    elsewhere = {("sn", "s"): Summed(np.roll(among, counting - 3, axis=0), mean, (1,))}
    assert differences(one, elsewhere, 200)["sn"]["s"].units == 3


def test_holm_by_hand():
    """Four tests: 0.01 x 4; 0.02 x 3; 0.03 x 2 stays above; 0.04 x 1 may not fall below the one
    before."""
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([None, 0.5, 0.9]) == [None, 1.0, 1.0] and holm([]) == []
