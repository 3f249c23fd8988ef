"""Scores of ``cases.parquet`` as sums over its rows, by context and by what is resampled, and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from pacer.comparison import statistics
from pacer.comparison.resampling import Interval, intervals, sums_by_unit
from pacer.comparison.statistics import ScoreOf, Statistics
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.metrics.cases import UNKNOWN
from pacer.metrics.conventions import CONVENTIONS, Convention

#: What may be resampled, the coarsest first: the default is the first that the cases know.
UNITS = ("subject", "study", "record")
#: The row of all contexts' records together.
POOLED = "pooled"
_MICRO: dict[str, ScoreOf] = {"precision": statistics.precision, "recall": statistics.recall, "f1": statistics.f1}


@dataclass(frozen=True)
class Intervals:
    """``scores``: context (and ``mean``) -> score -> interval; what was resampled, how many of it and how often."""

    scores: dict[str, dict[str, Interval]]
    unit: str
    units: int
    resamples: int
    level: float


@dataclass(frozen=True)
class LabelScores:
    """One observation: records that have it in the reference and in the report, precision, recall and F1 with
    intervals over all contexts together, and F1 in each context (None: undefined)."""

    name: str
    present: int
    predicted: int
    scores: dict[str, Interval]
    f1: dict[str, float | None]


def known(cases: pl.DataFrame, unit: str) -> bool:
    """Do the cases say the ``unit`` of every record? A blank id says nothing."""
    return f"{unit}_id" in cases.columns and bool((cases[f"{unit}_id"].fill_null("").str.strip_chars() != "").all())


def resampled_units(cases: pl.DataFrame, unit: str | None = None) -> tuple[str, np.ndarray, int]:
    """What is resampled, its index in each row ``[n]``, and how many there are.

    Args:
        unit: one of :data:`UNITS`; None: the coarsest that is known.

    Raises:
        DataError: the cases do not know it.
    """
    chosen = unit or next((name for name in UNITS if known(cases, name)), UNITS[-1])
    if not known(cases, chosen):
        raise DataError(f"the cases do not say the {chosen} of every record; choose another unit, or score again")
    codes = cases[f"{chosen}_id"].rank("dense").to_numpy().astype(int) - 1
    return chosen, codes, int(codes.max()) + 1


def contexts_of(cases: pl.DataFrame) -> list[str]:
    """The contexts of the cases, in the paper's order."""
    present = set(cases["context"])
    return [name for name in (*CONTEXTS, UNKNOWN) if name in present]


def is_labelled(cases: pl.DataFrame) -> bool:
    """Were the cases scored with a labeller?"""
    return cases["hypothesis_labels"].null_count() == 0


def label_rows(cases: pl.DataFrame, rule: Convention, reports: str = "hypothesis") -> np.ndarray:
    """:func:`~pacer.comparison.statistics.label_statistics` of the cases; 0 in rows that the convention leaves out,
    in each context by itself. ``reports``: ``hypothesis`` or a control."""
    labels = [np.array(cases[f"{side}_labels"].to_list()) for side in ("reference", reports)]
    rows = statistics.label_statistics(*labels, rule)
    if rule.duplicates == "first" and "study_id" in cases.columns:
        unknown = cases["study_id"].fill_null("") == ""  # each a study of its own, as in the scores
        first = cases.select(pl.struct("context", "study_id").is_first_distinct()).to_series()
        rows[~(first | unknown).to_numpy()] = 0
    return rows


def score_intervals(
    cases: pl.DataFrame, convention: str, resamples: int = 10_000, level: float = 0.95, columns: Sequence[str] = ()
) -> Intervals:
    """Bootstrap intervals of the scores of :func:`case_statistics`, by context and for their mean."""
    unit, codes, count = resampled_units(cases)
    found = {}
    for context in contexts_of(cases):
        mine = (cases["context"] == context).to_numpy()
        own = case_statistics(cases.filter(pl.Series(mine)), CONVENTIONS[convention], columns)
        # scores that share their statistics share the sums too
        sums = {id(one.rows): sums_by_unit(one.rows, codes[mine], count) for one in own.values()}
        found[context] = {name: Statistics(sums[id(one.rows)], one.score) for name, one in own.items()}
    return Intervals(intervals(found, resamples, level=level), unit, count, resamples, level)


def case_statistics(cases: pl.DataFrame, rule: Convention, columns: Sequence[str] = ()) -> dict[str, Statistics]:
    """Every score that is a function of sums over cases, with its statistics by case. CIDEr is none, for its document
    frequencies are the context's.

    Args:
        columns: those of the cases that are scores beside the pipeline's.
    """
    references, hypotheses = cases["reference"].to_list(), cases["hypothesis"].to_list()
    found = clinical_statistics(cases, rule) if is_labelled(cases) else {}
    ngrams = statistics.bleu_statistics(references, hypotheses)
    found |= {f"bleu{order}": Statistics(ngrams, partial(statistics.bleu, order=order)) for order in (1, 2, 3, 4)}
    found["rougeL"] = Statistics(statistics.mean_statistics(cases["rougeL"].to_list()), statistics.mean)
    counted = statistics.meteor_statistics(cases["meteor_statistics"].to_list())
    found["meteor"] = Statistics(counted, statistics.meteor)
    for name in columns:
        found[name] = Statistics(statistics.mean_statistics(cases[name].to_list()), statistics.mean)
    return found


def clinical_statistics(cases: pl.DataFrame, rule: Convention) -> dict[str, Statistics]:
    """F1, and but for a weighted convention precision and recall, with their statistics by case."""
    labels = label_rows(cases, rule)
    if rule.averages[0] == "weighted":
        return {"f1": Statistics(labels, partial(statistics.f1, weighted=True))}
    labels = labels.reshape(len(labels), 3, -1).sum(axis=2)  # the observations need not be kept apart
    return {name: Statistics(labels, score) for name, score in _MICRO.items()}


def label_intervals(cases: pl.DataFrame, convention: str, resamples: int = 10_000) -> list[LabelScores]:
    """Every observation of the convention, the one with most references first."""
    rule = CONVENTIONS[convention]
    _, codes, count = resampled_units(cases)
    rows = label_rows(cases, rule).reshape(len(cases), 3, -1)
    by_unit = [sums_by_unit(rows[:, :, column], codes, count) for column in range(rows.shape[2])]
    flat = {
        f"{column}/{name}": Statistics(table, score)
        for column, table in enumerate(by_unit)
        for name, score in _MICRO.items()
    }
    found = intervals({POOLED: flat}, resamples)[POOLED]
    mine = {context: (cases["context"] == context).to_numpy() for context in contexts_of(cases)}
    result = []
    for column, observation in enumerate(rule.observations):
        by_context = {
            context: float(statistics.f1(rows[chosen, :, column].sum(axis=0))) for context, chosen in mine.items()
        }
        result.append(
            LabelScores(
                observation,
                int(rows[:, 2, column].sum()),
                int(rows[:, 1, column].sum()),
                {name: found[f"{column}/{name}"] for name in _MICRO},
                {context: None if np.isnan(value) else value for context, value in by_context.items()},
            )
        )
    return sorted(result, key=lambda one: -one.present)
