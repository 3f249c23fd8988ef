"""Tests between groups: against scipy, against a hand calculation, and where there is nothing to test."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pacer.comparison.groups import compare_groups, holm


def test_holm_by_hand():
    """Four tests: 0.01 x 4; 0.02 x 3; 0.03 x 2 stays above; 0.04 x 1 may not fall below the one before."""
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([None, 0.5, 0.9]) == [None, 1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_lowers_and_keeps_the_order(values: list[float]):
    adjusted = holm(values)
    assert all(after is not None and p <= after <= 1 for p, after in zip(values, adjusted, strict=True))
    assert [after for _, after in sorted(zip(values, adjusted, strict=True))] == sorted(adjusted)


def test_groups_against_scipy():
    draw = np.random.default_rng(0)
    groups = {
        name: {str(unit): [float(draw.normal(shift))] for unit in range(30)}
        for name, shift in (("sn", 0.0), ("sw", 0.0), ("mn", 2.0))
    }
    groups["mn"] |= {"other": [2.0, 3.0]}
    found = compare_groups(groups | {"mw": {}})
    expected = stats.kruskal(*([value for own in units.values() for value in own] for units in groups.values()))
    assert (found.h, found.p) == pytest.approx(tuple(expected))
    assert found.epsilon_squared == pytest.approx(expected.statistic / 91)
    pairs = {(pair.first, pair.second): pair for pair in found.pairs}
    assert set(pairs) == {("sn", "sw"), ("sn", "mn"), ("sw", "mn")} and {pair.n for pair in found.pairs} == {30}
    gaps = [groups["mn"][str(unit)][0] - groups["sn"][str(unit)][0] for unit in range(30)]
    assert pairs["sn", "mn"].p == pytest.approx(stats.wilcoxon(gaps).pvalue)
    assert pairs["sn", "mn"].median == pytest.approx(np.median(gaps))
    assert pairs["sn", "mn"].adjusted < 0.01 < pairs["sn", "sw"].adjusted


def test_several_values_of_a_unit_all_count_and_its_pairs_are_of_their_mean():
    found = compare_groups({"sn": {"a": [0.1, 0.3], "b": [0.2]}, "sw": {"a": [0.5], "b": [0.4, 0.8]}})
    assert found.h == pytest.approx(stats.kruskal([0.1, 0.3, 0.2], [0.5, 0.4, 0.8]).statistic)
    assert found.pairs[0].n == 2 and found.pairs[0].median == pytest.approx(0.35)


def test_nothing_to_test():
    same = compare_groups({"sn": {"a": [0.1], "b": [0.1]}, "sw": {"a": [0.1], "b": [0.1]}, "mn": {"c": [0.1]}})
    assert (same.h, same.p, same.epsilon_squared) == (None, None, None)
    assert [(pair.n, pair.p) for pair in same.pairs] == [(2, 1.0), (0, None), (0, None)]
    assert compare_groups({"sn": {"a": [0.1]}}).pairs == ()
