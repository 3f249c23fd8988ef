"""Scores of ``cases.parquet`` as sums over its rows, by context and resampled unit, and their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from pacer.metrics.cases import by_context, contexts_of
from pacer.metrics.clinical import CONVENTIONS, RATIOS, averaged, label_rows
from pacer.metrics.score_kinds import Score, Sums
from pacer.metrics.scores import summed_scores
from pacer.metrics.statistics.bootstrap import Interval, Key, ScoreOf, Summed, by_unit, intervals

#: Units that may be resampled, the coarsest first, with their names in tables.
UNITS = {"subject": "patients", "study": "examinations", "record": "records"}
#: Row name for the records of all contexts together.
POOLED = "pooled"


@dataclass(frozen=True)
class Intervals:
    """``scores``: context (and ``mean``) -> score -> interval. ``unit``: what was resampled; ``units``: how many."""

    scores: dict[str, dict[str, Interval]]
    unit: str
    units: int
    resamples: int


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
    scores = context_sums(cases, convention, summed_scores(cases, columns), units)
    return Intervals(intervals(scores, resamples), units.name, units.count, resamples)


def label_intervals(cases: pl.DataFrame, convention: str, resamples: int = 10_000) -> list[LabelScores]:
    """Return every observation of the convention, sorted by its number of references, most first."""
    rule = CONVENTIONS[convention]
    units = resampled_units(cases)
    rows = label_rows(cases, rule).reshape(len(cases), 3, -1)
    contexts = {context: rows[(cases["context"] == context).to_numpy()].sum(axis=0) for context in contexts_of(cases)}
    labels = []
    summed: dict[Key, Summed] = {}
    for column, name in enumerate(rule.observations):
        table = by_unit(rows[:, :, column], units.codes, units.count)
        summed |= {(POOLED, f"{name}/{ratio}"): Summed(table, partial(averaged, ratio=ratio)) for ratio in RATIOS}
    estimates = intervals(summed, resamples)[POOLED]
    for column, name in enumerate(rule.observations):
        _, predicted, present = rows[:, :, column].sum(axis=0)
        scores = {str(ratio): estimates[f"{name}/{ratio}"] for ratio in RATIOS}
        f1 = {context: float(averaged(sums[:, column], "f1")) for context, sums in contexts.items()}
        defined = {context: None if np.isnan(value) else value for context, value in f1.items()}
        labels.append(LabelScores(name, int(present), int(predicted), scores, defined))
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


def context_sums(cases: pl.DataFrame, convention: str, scores: Iterable[Score], units: Units) -> dict[Key, Summed]:
    """Return the ``scores`` that have sums, by context and over units."""
    rule = CONVENTIONS[convention]
    known = {score.key: score.sums for score in scores if score.sums is not None}
    found: dict[Key, Summed] = {}

    def bound(sums: Sums) -> ScoreOf:
        return lambda total: sums.score(total, rule)

    for context, part in by_context(cases).items():
        codes = units.codes[(cases["context"] == context).to_numpy()]
        kinds = dict.fromkeys(sums.rows for sums in known.values())
        tables = {rows: by_unit(rows(part, rule), codes, units.count) for rows in kinds}
        found |= {(context, key): Summed(tables[sums.rows], bound(sums), sums.counted) for key, sums in known.items()}
    return found
