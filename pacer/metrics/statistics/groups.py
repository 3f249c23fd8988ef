"""F1 of groups of records, such as those of one view: which records are reported worse?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from pacer.metrics.cases import is_labelled
from pacer.metrics.clinical import CONVENTIONS, averaged, label_rows
from pacer.metrics.statistics.bootstrap import Interval, Key, Summed, by_unit, intervals
from pacer.metrics.statistics.intervals import POOLED, resampled_units


class GroupScore(NamedTuple):
    """F1 of the ``n`` records, over all contexts together, that have ``value`` in ``column``."""

    column: str
    value: str
    n: int
    f1: Interval


def group_scores(
    cases: pl.DataFrame, convention: str, columns: Sequence[str], resamples: int = 10_000
) -> list[GroupScore]:
    """Return F1 of the records of each view and of each value of ``columns``, with bootstrap intervals; none without
    labels. A column with one value makes no groups, a record without a value is in none, and groups of too few units
    have no interval."""
    named = [name for name in ("view", *columns) if name in cases.columns and cases[name].drop_nulls().n_unique() > 1]
    if not named or not is_labelled(cases):
        return []
    rule, units = CONVENTIONS[convention], resampled_units(cases)
    rows, f1 = label_rows(cases, rule), lambda sums: averaged(sums[..., :-1], "f1", rule.averages[0])
    members: list[tuple[str, str, np.ndarray]] = [
        (name, value, (cases[name] == value).fill_null(False).to_numpy())
        for name in named
        for value in cases[name].drop_nulls().unique().sort()
    ]
    sums: dict[Key, Summed] = {}
    for place, (_, _, chosen) in enumerate(members):  # records outside a group add nothing to its sums
        of_units = by_unit(np.column_stack([rows * chosen[:, None], chosen]), units.codes, units.count)
        sums[POOLED, str(place)] = Summed(of_units, f1, counted=(rows.shape[1],))
    scored = zip(members, intervals(sums, resamples)[POOLED].values(), strict=True)
    return [GroupScore(name, value, int(chosen.sum()), score) for (name, value, chosen), score in scored]
