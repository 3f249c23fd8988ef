"""Scores of ``cases.parquet`` as sums over its rows, by context and resampled unit, and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from pacer.commitments.anchor import POLARITIES
from pacer.metrics.cases import by_context, contexts_of, is_labelled, labels_of
from pacer.metrics.clinical import RATIOS, label_counts, micro, present, weighted_f1
from pacer.metrics.commitments import states
from pacer.metrics.conventions import CONVENTIONS, Convention
from pacer.metrics.meteor import meteor, meteor_statistics
from pacer.metrics.nlg import bleu, bleu_statistics
from pacer.metrics.statistics.bootstrap import LEVEL, Interval, ScoreOf, Statistics, intervals

#: Units that may be resampled, the coarsest first.
UNITS = ("subject", "study", "record")
#: Row name for the records of all contexts together.
POOLED = "pooled"
#: Name of the labels' table in the statistics.
_LABELS = "labels"


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
    """Return bootstrap intervals of the scores of :func:`case_statistics`, by context and for their mean."""
    unit, codes, count = resampled_units(cases)
    statistics = {
        context: case_statistics(part, CONVENTIONS[convention], columns).by_unit(codes[rows_of(cases, context)], count)
        for context, part in by_context(cases).items()
    }
    return Intervals(intervals(statistics, resamples), unit, count, resamples)


def label_intervals(cases: pl.DataFrame, convention: str, resamples: int = 10_000) -> list[LabelScores]:
    """Return every observation of the convention, sorted by its number of references, most first."""
    rule = CONVENTIONS[convention]
    _, codes, count = resampled_units(cases)
    rows = label_rows(cases, rule).reshape(len(cases), 3, -1)
    tables = {name: rows[:, :, column] for column, name in enumerate(rule.observations)}
    scores: dict[str, tuple[str, ScoreOf]] = {
        f"{name}/{ratio}": (name, partial(micro, ratio=ratio)) for name in tables for ratio in RATIOS
    }
    by_name = intervals({POOLED: Statistics(tables, scores).by_unit(codes, count)}, resamples)[POOLED]

    def f1(table: np.ndarray, context: str) -> float | None:
        value = float(micro(table[rows_of(cases, context)].sum(axis=0), "f1"))
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


def resampled_units(cases: pl.DataFrame) -> tuple[str, np.ndarray, int]:
    """Return the unit to resample, its index in each row ``[n]``, and the number of units. The unit is the coarsest of
    :data:`UNITS` that is known for every record (a blank id counts as unknown)."""
    ids = {unit: cases[f"{unit}_id"] for unit in UNITS if f"{unit}_id" in cases.columns}
    unit = next(unit for unit, column in ids.items() if (column.fill_null("").str.strip_chars() != "").all())
    codes = ids[unit].rank("dense").to_numpy().astype(int) - 1
    return unit, codes, int(codes.max()) + 1


def rows_of(cases: pl.DataFrame, context: str) -> np.ndarray:
    """Return which rows belong to a context, Boolean ``[n]``."""
    return (cases["context"] == context).to_numpy()


def case_statistics(cases: pl.DataFrame, rule: Convention, columns: Sequence[str] = ()) -> Statistics:
    """Return every score that is a function of sums over cases, with its statistics by case. CIDEr is not one, because
    its document frequencies depend on the whole context.

    Args:
        columns: columns of the cases that are scores, in addition to the pipeline's.
    """
    clinical = clinical_statistics(cases, rule) if is_labelled(cases) else Statistics({}, {})
    polarities = polarity_statistics(cases)
    tables = (
        clinical.tables
        | polarities.tables
        | {
            "bleu": bleu_statistics(cases["reference"].to_list(), cases["hypothesis"].to_list()),
            "rougeL": mean_statistics(cases["rougeL"].to_list()),
            "meteor": meteor_statistics(cases["meteor_statistics"].to_list()),
            **{name: mean_statistics(cases[name].to_list()) for name in columns},
        }
    )
    scores: dict[str, tuple[str, ScoreOf]] = {
        **clinical.scores,
        **polarities.scores,
        **{f"bleu{order}": ("bleu", partial(bleu, order=order)) for order in (1, 2, 3, 4)},
        "rougeL": ("rougeL", mean),
        "meteor": ("meteor", meteor),
        **{name: (name, mean) for name in columns},
    }
    return Statistics(tables, scores)


def clinical_statistics(cases: pl.DataFrame, rule: Convention, reports: str = "hypothesis") -> Statistics:
    """Return F1, and precision and recall unless the convention is weighted, with their statistics by case.
    ``reports``: ``hypothesis`` or a control."""
    rows = label_rows(cases, rule, reports)
    if rule.averages[0] == "weighted":
        return Statistics({_LABELS: rows}, {"f1": (_LABELS, weighted_f1)})
    rows = rows.reshape(len(rows), 3, -1).sum(axis=2)  # micro averages need no separate observations
    return Statistics({_LABELS: rows}, {ratio: (_LABELS, partial(micro, ratio=ratio)) for ratio in RATIOS})


def polarity_statistics(cases: pl.DataFrame) -> Statistics:
    """Return F1 of the findings that report and reference affirm, and of those that they deny, by case."""
    reference, report = states(cases, "reference"), states(cases, "report")
    tables = {
        f"report_{polarity}_f1": label_counts(reference == state, report == state)
        .reshape(len(cases), 3, -1)
        .sum(axis=2)
        for state, polarity in enumerate(POLARITIES)
        if polarity != "uncertain"
    }
    return Statistics(tables, {name: (name, partial(micro, ratio="f1")) for name in tables})


def label_rows(cases: pl.DataFrame, rule: Convention, reports: str = "hypothesis") -> np.ndarray:
    """Return :func:`~pacer.metrics.clinical.label_counts` of the cases, 0 in rows that the convention leaves out, for
    each context separately. ``reports``: ``hypothesis`` or a control."""
    rows = label_counts(*(present(labels_of(cases, side), rule) for side in ("reference", reports)))
    if rule.duplicates == "first" and "study_id" in cases.columns:
        unknown = (
            cases["study_id"].fill_null("").str.strip_chars() == ""
        )  # each counts as its own study, as in the scores
        first = cases.select(pl.struct("context", "study_id").is_first_distinct()).to_series()
        rows[~(first | unknown).to_numpy()] = 0
    return rows


def mean_statistics(values: Sequence[float | None]) -> np.ndarray:
    """Return the statistics ``[n, 2]`` of a score that is the mean over rows that have a value."""
    numbers = np.array(values, dtype=float)
    defined = ~np.isnan(numbers)
    return np.stack([np.where(defined, numbers, 0.0), defined], axis=1)


def mean(sums: np.ndarray) -> np.ndarray:
    """Return the mean from sums of :func:`mean_statistics`; NaN without rows."""
    with np.errstate(invalid="ignore"):
        return sums[..., 0] / sums[..., 1]
