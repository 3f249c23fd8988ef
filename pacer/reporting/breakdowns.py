"""Intervals of parts of the cases: F1 of each observation and of groups of records (which are
reported worse?)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from pacer.metrics.cases import contexts_of, is_labelled
from pacer.metrics.clinical import averaged, label_rows
from pacer.metrics.conventions import CONVENTIONS, RATIOS
from pacer.metrics.score_kinds import defined
from pacer.statistics.halves import Interval, Key, Summed, by_unit, intervals, units_of

#: Row name for the records of all contexts together.
POOLED = "pooled"


@dataclass(frozen=True)
class LabelScores:
    """One observation: the number of records with it in the reference and in the report; precision,
    recall and F1 with intervals over all contexts together; and F1 in each context (None:
    undefined)."""

    name: str
    present: int
    predicted: int
    scores: dict[str, Interval]
    f1: dict[str, float | None]


def label_intervals(
    cases: pl.DataFrame, convention: str, resamples: int = 10_000
) -> list[LabelScores]:
    """Return every observation of the convention, sorted by its number of references, most
    first."""
    rule = CONVENTIONS[convention]
    units = units_of(cases)
    rows = label_rows(cases, rule).reshape(len(cases), 3, -1)
    contexts = {
        context: rows[(cases["context"] == context).to_numpy()].sum(axis=0)
        for context in contexts_of(cases)
    }
    summed: dict[Key, Summed] = {}
    for column, name in enumerate(rule.observations):
        table = by_unit(rows[:, :, column], units.codes, units.count)
        for ratio in RATIOS:
            summed[name, ratio] = Summed(table, partial(averaged, ratio=ratio), (1, 2))
    estimates = intervals(summed, resamples)
    labels = []
    for column, name in enumerate(rule.observations):
        _, predicted, present = rows[:, :, column].sum(axis=0)
        f1 = {name: defined(averaged(sums[:, column], "f1")) for name, sums in contexts.items()}
        labels.append(LabelScores(name, int(present), int(predicted), estimates[name], f1))
    return sorted(labels, key=lambda label: -label.present)


class GroupScore(NamedTuple):
    """F1 of the ``n`` records, over all contexts together, that have ``value`` in ``column``."""

    column: str
    value: str
    n: int
    f1: Interval


def group_scores(
    cases: pl.DataFrame, convention: str, columns: Sequence[str], resamples: int = 10_000
) -> list[GroupScore]:
    """Return F1 of the records of each view and of each value of ``columns``, with intervals; none
    without labels. A column with one value makes no groups, a record without a value is in none,
    and small groups have no interval."""
    named = [
        name
        for name in ("view", *columns)
        if name in cases.columns and cases[name].drop_nulls().n_unique() > 1
    ]
    if not named or not is_labelled(cases):
        return []
    rule, units = CONVENTIONS[convention], units_of(cases)
    rows = np.column_stack([label_rows(cases, rule), np.ones(len(cases))])
    groups = [
        (name, value, (cases[name] == value).fill_null(False).to_numpy())
        for name in named
        for value in cases[name].drop_nulls().unique().sort()
    ]
    sums: dict[Key, Summed] = {
        (POOLED, str(place)): Summed(
            by_unit(rows[chosen], units.codes[chosen], units.count),
            lambda sums: averaged(sums[..., :-1], "f1", rule.averages[0]),
            counted=(-1,),
        )
        for place, (_, _, chosen) in enumerate(groups)
    }
    scored = zip(groups, intervals(sums, resamples)[POOLED].values(), strict=True)
    return [GroupScore(name, value, int(chosen.sum()), f1) for (name, value, chosen), f1 in scored]
