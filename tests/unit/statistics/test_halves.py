from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.metrics.clinical import averaged, label_counts
from pacer.metrics.score_kinds import mean, mean_rows
from pacer.statistics.halves import (
    LEAST_UNITS,
    Key,
    Summed,
    differences,
    holm,
    interval_and_p,
    intervals,
    without_bias,
)
from tests.support.cases import listed_cases


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
    found = differences(run, run, 200)
    assert list(found) == ["sn", "mn", "mean"]
    for scores in found.values():
        found = scores["s"]
        ends = (None, None, None) if units < LEAST_UNITS else (0.0, 0.0, 1.0)
        assert found.difference == 0.0 and (found.low, found.high, found.p) == ends


def test_a_known_difference_is_found_and_a_resampling_is_repeatable():
    draw = np.random.default_rng(3)
    first = draw.random(200)
    runs = means(sn=first), means(sn=first + 0.02 + 0.01 * draw.standard_normal(200))
    found = differences(*runs, 500)["sn"]["s"]
    assert found.p == pytest.approx(1 / 501) and found.low > 0.015 and found.high < 0.025
    assert differences(*runs, 500)["sn"]["s"] == found != differences(*runs, 501)["sn"]["s"]


def test_p_of_means_equals_that_of_all_exchanges():
    """Ten units have 1,024 exchanges between the systems, of which p estimates the share that are
    at least as extreme, and as many halves, whose differences are the ends of the interval."""
    draw = np.random.default_rng(1)
    first, second = draw.random((2, 10))
    gaps = second - first + 0.1
    chosen = (np.arange(1024)[:, None] >> np.arange(10)) & 1
    exchanged = np.abs(((1 - 2 * chosen) * gaps).mean(axis=1))
    exact = (exchanged >= abs(gaps.mean()) - 1e-12).mean()
    with np.errstate(invalid="ignore"):
        halves = (chosen @ gaps) / chosen.sum(axis=1)
    ends = np.nanquantile(halves, (0.025, 0.975))
    runs = means(sn=first), means(sn=first + gaps)
    found = differences(*runs, 20_000)["sn"]["s"]
    assert found.p == pytest.approx(exact, abs=0.015)
    assert (found.low, found.high) == pytest.approx(ends, abs=0.02)


def shares(draw: np.random.Generator, units: int, rates: tuple[float, float]) -> list:
    """Two systems that count different findings, in two contexts."""
    sides: list[dict[Key, Summed]] = [{}, {}]
    for context in ("sn", "mn"):
        for side, rate, told in zip(sides, rates, (0.9, 0.5), strict=True):
            counts = draw.binomial(3, told, units)
            rows = np.stack([draw.binomial(counts, rate), counts], axis=1).astype(float)
            side[context, "s"] = Summed(rows, mean, (1,))
            truth, found = draw.random((2, units, 3)) < [[[0.5]], [[rate]]]
            weighted = partial(averaged, ratio="f1", average="weighted")
            side[context, "f1"] = Summed(label_counts(truth, found), weighted)
    return sides


@given(st.integers(0, 2**31), st.integers(10, 60), st.sampled_from([19, 100, 999]))
def test_p_is_at_most_a_twentieth_where_the_interval_excludes_0(seed, units, splits):
    draw = np.random.default_rng(seed)
    first, second = shares(draw, units, tuple(draw.uniform(0.3, 1, 2)))
    there = differences(first, second, splits)
    back = differences(second, first, splits)
    pairs = [
        (found, back[c][name]) for c, scores in there.items() for name, found in scores.items()
    ]
    for found, turned in pairs:
        assert (found.p is None) == (found.low is None) == (found.high is None)
        if found.p is not None:
            assert (found.p <= 0.05) == (found.low > 0 or found.high < 0)
            assert (turned.p, turned.low, turned.high) == pytest.approx(
                (found.p, -found.high, -found.low)
            )


@pytest.mark.parametrize(("gap", "centre", "expected"), listed_cases(__file__, "bias"))
def test_halves_that_lie_too_far_from_0_are_moved_towards_it(gap, centre, expected):
    drawn = centre + np.linspace(-0.2, 0.2, 9)
    moved = without_bias(gap, np.append(drawn, np.nan))
    assert moved[:-1] - drawn == pytest.approx(expected - centre) and np.isnan(moved[-1])


@given(st.integers(0, 2**31), st.integers(1, 4))
def test_ends_and_p_are_order_statistics_of_one_list(seed, undefined):
    """Undefined halves lie beyond either end, and count against a difference."""
    draw = np.random.default_rng(seed)
    drawn = draw.normal(draw.normal(0, 2), 1, 200)
    ordered = np.sort(drawn)
    low, high, p = interval_and_p(drawn)
    assert (low, high) == (ordered[4], ordered[195])  # floor(.05 * 101) is 5
    assert p == min(1, (1 + min((drawn <= 0).sum(), (drawn >= 0).sum())) / 101)
    drawn[:undefined] = np.nan
    low, high, p = interval_and_p(drawn)
    rest = np.sort(drawn[undefined:])
    assert (low, high) == (rest[4 - undefined], rest[-5 + undefined])
    against = undefined + min((rest <= 0).sum(), (rest >= 0).sum())
    assert p == min(1, (1 + against) / 101)


def test_the_order_of_patients_does_not_matter():
    draw = np.random.default_rng(6)
    sides = shares(draw, 80, (0.8, 0.6))
    order = draw.permutation(80)
    mixed = [{key: one._replace(rows=one.rows[order]) for key, one in s.items()} for s in sides]
    found, other = (differences(*pair)["mean"]["s"] for pair in (sides, mixed))
    assert (found.low, found.high, found.p) == pytest.approx(
        (other.low, other.high, other.p), abs=0.01
    )


def test_a_system_without_errors_is_not_shown_to_be_better_by_one_error():
    """40 findings without an error, and 20 with one: one of 20 patients decides."""
    first, second = np.zeros((40, 2)), np.zeros((40, 2))
    first[:], second[:20] = 1, 1
    second[0, 0] = 0
    one, two = ({("sn", "s"): Summed(rows, mean, (1,))} for rows in (first, second))
    found = differences(one, two)["sn"]["s"]
    assert found.difference == pytest.approx(-0.05) and found.counts == (40, 20)
    assert found.p > 0.3 and found.low < 0 <= found.high
    alone = intervals(one)["sn"]["s"]
    assert (alone.value, alone.high) == (1, 1) and 0.9 < alone.low < 0.95


@pytest.mark.parametrize(("labelled", "is_shown"), [(6, False), (9, True)])
def test_a_score_that_many_halves_lack_has_no_interval(labelled, is_shown):
    """F1 of a finding that is in the references and reports of a few patients."""
    rows = np.zeros((60, 3))
    rows[:labelled] = 1
    rows[0, 0] = 0
    run = {("sn", "s"): Summed(rows, partial(averaged, ratio="f1"))}
    found, alone = differences(run, run, 2_000)["sn"]["s"], intervals(run, 2_000)["sn"]["s"]
    assert found.units == 60
    assert [one.low is not None for one in (found, alone)] == [is_shown] * 2
    assert (found.p is not None) == is_shown


def test_rounding_is_judged_by_the_size_of_the_scores():
    """Equal systems, of which one adds up in another order, at any scale."""
    values = np.random.default_rng(7).random(30)
    for scale in (1e-9, 1.0, 1e9):
        first = means(sn=values * scale)
        found = differences(first, means(sn=values * scale * (1 + 1e-15)), 200)["sn"]["s"]
        assert (found.low, found.high, found.p) == (0, 0, 1)
        other = differences(first, means(sn=values * scale * 1.5), 200)["sn"]["s"]
        assert other.low > 0 and other.p < 0.01


def test_the_interval_of_a_share_is_the_exact_binomial_one():
    """Of independent findings, one a patient, but for the correction for estimated spread: 2 of 50
    have .005 to .137 (Clopper and Pearson)."""
    values = np.zeros(50)
    values[:2] = 1
    [found] = intervals(means(sn=values))["sn"].values()
    assert 0.003 < found.low < 0.0049 and 0.137 < found.high < 0.16
    [none] = intervals(means(sn=np.zeros(50)))["sn"].values()
    assert none.low == none.value == 0 and 0.0711 < none.high < 0.08
    [more] = intervals(means(sn=values * 7))["sn"].values()  # no share: the halves' percentiles
    assert more.low == 0 and 0.5 < more.high < 0.8


def test_an_interval_of_the_mean_of_numbers_is_none_of_a_share():
    """No patient has both contexts, so none has a mean of its own."""
    values = np.random.default_rng(8).normal(40, 5, 60)
    odd = np.arange(60) % 2 == 1
    contexts = means(sn=np.where(odd, values, np.nan), mw=np.where(odd, np.nan, values))
    found = intervals({key: one._replace(counted=(1,)) for key, one in contexts.items()})
    mean_of_both = found["mean"]["s"]
    assert 36 < mean_of_both.low < mean_of_both.value < mean_of_both.high < 44


def test_a_score_that_is_1_but_for_rounding_has_an_interval_with_a_width():
    [found] = intervals(means(sn=1 - 1e-14 * np.random.default_rng(9).random(50)))["sn"].values()
    assert 0.9 < found.low < 0.94 and found.high == pytest.approx(1)


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
        assert (found.low, compared.low, compared.p) == (None, None, None)
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
