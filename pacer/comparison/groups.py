"""Tests of whether a number differs between groups in which the same units may stand, such as the gate by context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class PairTest:
    """Two groups over the ``n`` units that stand in both: the median of second minus first, the p value of Wilcoxon's
    signed-rank test, and the same after Holm's correction for all pairs. ``None``: no unit stands in both."""

    first: str
    second: str
    n: int
    median: float | None
    p: float | None
    adjusted: float | None


@dataclass(frozen=True)
class GroupTests:
    """Kruskal-Wallis over all values: H, p value and the share of rank variance between groups (epsilon squared,
    H / (n - 1)); ``None`` with one group or equal values. ``pairs``: which groups differ."""

    h: float | None
    p: float | None
    epsilon_squared: float | None
    pairs: tuple[PairTest, ...]


def compare_groups(groups: Mapping[str, Mapping[str, Sequence[float]]]) -> GroupTests:
    """Compare all groups at once, then every two of them.

    The first test takes values as independent, which they are not where a unit stands in several groups; the tests of
    pairs are within units, by their means.

    Args:
        groups: group -> unit -> values; groups without units are passed over.
    """
    groups = {name: units for name, units in groups.items() if units}
    values = [[value for own in units.values() for value in own] for units in groups.values()]
    every = [value for own in values for value in own]
    h = p = epsilon = None
    if len(groups) > 1 and len(set(every)) > 1:
        found = stats.kruskal(*values)
        h, p, epsilon = float(found.statistic), float(found.pvalue), float(found.statistic) / (len(every) - 1)
    tested = [(first, second, _paired(groups[first], groups[second])) for first, second in combinations(groups, 2)]
    adjusted = holm([p for _, _, (_, _, p) in tested])
    pairs = tuple(
        PairTest(first, second, *found, after) for (first, second, found), after in zip(tested, adjusted, strict=True)
    )
    return GroupTests(h, p, epsilon, pairs)


def _paired(
    first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]
) -> tuple[int, float | None, float | None]:
    gaps = np.array([np.mean(second[unit]) - np.mean(first[unit]) for unit in first if unit in second])
    if not len(gaps):
        return 0, None, None
    # without a difference there is nothing to rank
    p = float(stats.wilcoxon(gaps).pvalue) if gaps.any() else 1.0
    return len(gaps), float(np.median(gaps)), p


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p values after Holm's step-down correction (Holm 1979); those that are None are no tests."""
    order = sorted((p, place) for place, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        adjusted[place] = largest
    return adjusted
