"""Scores of ``cases.parquet`` as sums over its rows, by context and resampled unit, and their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from pacer.metrics.cases import by_context, contexts_of
from pacer.metrics.clinical import RATIOS, averaged, observation_rows
from pacer.metrics.conventions import CONVENTIONS, Convention
from pacer.metrics.scores import Score, Sums, summed_scores
from pacer.metrics.statistics.bootstrap import LEVEL, Interval, ScoreOf, Statistics, intervals

#: Units that may be resampled, the coarsest first.
UNITS = ("subject", "study", "record")
#: Row name for the records of all contexts together.
POOLED = "pooled"


@dataclass(frozen=True)
class Intervals:
    """``scores``: context (and ``mean``) -> score -> interval. ``unit``: what was resampled; ``units``: how many."""

    scores: dict[str, dict[str, Interval]]
    unit: str
    units: int
    resamples: int
    level: float = LEVEL


@dataclass(frozen=True)
class LabelScores:
    """One observation: the number of records with it in the reference and in the report; precision, recall and F1 with
    intervals over all contexts together; and F1 in each context (None: undefined)."""

    name: str
    present: int
    predicted: int
    scores: dict[str, Interval]
    f1: dict[str, float | None]


def score_intervals(
    cases: pl.DataFrame, convention: str, resamples: int = 10_000, columns: Sequence[str] = ()
) -> Intervals:
    """Return bootstrap intervals of the scores that have sums, by context and for their mean."""
    units = resampled_units(cases)
    statistics = context_statistics(cases, convention, summed_scores(cases, columns), units)
    return Intervals(intervals(statistics, resamples), units.name, units.count, resamples)


def label_intervals(cases: pl.DataFrame, convention: str, resamples: int = 10_000) -> list[LabelScores]:
    """Return every observation of the convention, sorted by its number of references, most first."""
    rule = CONVENTIONS[convention]
    units = resampled_units(cases)
    rows = observation_rows(cases, rule).reshape(len(cases), 3, -1)
    tables = {name: rows[:, :, column] for column, name in enumerate(rule.observations)}
    scores: dict[str, tuple[str, ScoreOf]] = {
        f"{name}/{ratio}": (name, partial(averaged, ratio=ratio)) for name in tables for ratio in RATIOS
    }
    by_name = intervals({POOLED: Statistics(tables, scores).by_unit(units.codes, units.count)}, resamples)[POOLED]

    def f1(table: np.ndarray, context: str) -> float | None:
        value = float(averaged(table[rows_of(cases, context)].sum(axis=0), "f1"))
        return None if np.isnan(value) else value

    labels = [
        LabelScores(
            name,
            int(table[:, 2].sum()),
            int(table[:, 1].sum()),
            {ratio: by_name[f"{name}/{ratio}"] for ratio in RATIOS},
            {context: f1(table, context) for context in contexts_of(cases)},
        )
        for name, table in tables.items()
    ]
    return sorted(labels, key=lambda label: -label.present)


class Units(NamedTuple):
    """The resampled unit, one of :data:`UNITS`; ``codes``: its index in each row ``[n]``; ``count``: how many."""

    name: str
    codes: np.ndarray
    count: int


def resampled_units(cases: pl.DataFrame) -> Units:
    """Return the coarsest unit that is known for every record (a blank id counts as unknown)."""
    ids = {unit: cases[f"{unit}_id"] for unit in UNITS if f"{unit}_id" in cases.columns}
    unit = next(unit for unit, column in ids.items() if (column.fill_null("").str.strip_chars() != "").all())
    codes = ids[unit].rank("dense").to_numpy().astype(int) - 1
    return Units(unit, codes, int(codes.max()) + 1)


def rows_of(cases: pl.DataFrame, context: str) -> np.ndarray:
    """Return which rows belong to a context, Boolean ``[n]``."""
    return (cases["context"] == context).to_numpy()


def context_statistics(
    cases: pl.DataFrame, convention: str, scores: Sequence[Score], units: Units
) -> dict[str, Statistics]:
    """Return the statistics of ``scores`` by context and unit."""
    return {
        context: score_statistics(part, CONVENTIONS[convention], scores).by_unit(
            units.codes[rows_of(cases, context)], units.count
        )
        for context, part in by_context(cases).items()
    }


def score_statistics(cases: pl.DataFrame, rule: Convention, scores: Iterable[Score]) -> Statistics:
    """Return ``scores`` that are functions of sums over cases, with their statistics by case."""
    summed = {score.key: score.sums for score in scores if score.sums is not None}
    tables = {sums.rows: sums.rows(cases, rule) for sums in dict.fromkeys(summed.values())}

    def bound(sums: Sums) -> Callable[[np.ndarray], np.ndarray]:
        return lambda total: sums.score(total, rule)

    return Statistics(tables, {key: (sums.rows, bound(sums)) for key, sums in summed.items()})
