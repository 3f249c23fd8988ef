"""F1 of groups of records, such as those of one view, in one run or in two: which records are reported worse?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import polars as pl

from pacer.core.contexts import CONTEXTS, availability
from pacer.metrics.cases import is_labelled, labels_of
from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.metrics.clinical import averaged, label_rows
from pacer.metrics.commitments import agreement
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.scores import score_of
from pacer.metrics.statistics.bootstrap import Difference, Interval, Statistics, differences, intervals
from pacer.metrics.statistics.intervals import POOLED, Units, resampled_units, score_statistics

#: Minimum number of resampled units (patients, if known) for an interval; with fewer, the spread is unknown.
LEAST_UNITS = 10
#: Grouping of a run with commitments: how much of its own commitment each report states alike.
AGREEMENT = "agreement with its commitment"
_AGES = {0: "same day", 7: "up to a week", 90: "up to 90 days", 365: "up to a year"}
_OLDER = "over a year"
Estimate = TypeVar("Estimate", Interval, Difference)
#: Column and value of a group, and a Boolean mask ``[n]`` of its records.
Group = tuple[tuple[str, str], np.ndarray]


@dataclass(frozen=True)
class GroupScore(Generic[Estimate]):
    """F1 of the ``n`` records, over all contexts together, that have ``value`` in ``column``: of one run, or of two.
    The difference of two has no p value, because with so many groups some would be small by chance."""

    column: str
    value: str
    n: int
    f1: Estimate


def group_scores(
    cases: pl.DataFrame, convention: str, columns: Sequence[str] = (), resamples: int = 10_000
) -> list[GroupScore[Interval]]:
    """Return every group of a run with its bootstrap interval; none without labels.

    Args:
        cases: ``cases.parquet``. columns: its columns to group by, in addition to the pipeline's groups.
    """
    share = pl.col("agreement")
    words = pl.when(share == 1).then(pl.lit("full")).when(share >= 2 / 3).then(pl.lit("two thirds or more"))
    levels = words.when(share < 2 / 3).then(pl.lit("less")).cast(pl.Enum(["full", "two thirds or more", "less"]))
    cases = cases.with_columns(pl.select(agreement(cases)).select(levels.alias(AGREEMENT)).to_series())
    return _estimated([cases], convention, [AGREEMENT, *columns], lambda run: intervals(run, resamples))


class Coverage(NamedTuple):
    """The reports whose agreement is at least ``agreement``: their share of those with an agreement, and their F1."""

    agreement: float
    share: float
    f1: float


def coverage(cases: pl.DataFrame, convention: str) -> list[Coverage]:
    """Return F1 of the reports that agree most with their own commitment, for every value of agreement, the highest
    first; empty without commitments or labels. Values at which F1 is undefined are left out."""
    known = cases.with_columns(agreement(cases)).filter(pl.col("agreement").is_not_null())
    if known.is_empty() or not is_labelled(known):
        return []
    known = known.sort("agreement", descending=True)
    rule, values = CONVENTIONS[convention], known["agreement"].to_numpy()
    f1 = averaged(label_rows(known, rule).cumsum(axis=0), "f1", rule.averages[0])
    last = np.flatnonzero(np.append(values[1:] != values[:-1], True))  # reports that agree alike count together
    return [Coverage(values[i], (i + 1) / len(known), f1[i]) for i in last if not np.isnan(f1[i])]


def group_differences(
    first: pl.DataFrame, second: pl.DataFrame, convention: str, columns: Sequence[str] = (), resamples: int = 10_000
) -> list[GroupScore[Difference]]:
    """Return every group in two runs of the same records, row by row; ``first`` defines the groups."""
    found = _estimated([first, second], convention, columns, lambda run, other: differences(run, other, resamples))
    return [replace(group, f1=replace(group.f1, p=None)) for group in found]


def _estimated(
    runs: Sequence[pl.DataFrame],
    convention: str,
    columns: Sequence[str],
    estimate: Callable[..., dict[str, dict[str, Estimate]]],
) -> list[GroupScore[Estimate]]:
    units = resampled_units(runs[0])
    groups = list(_groups(runs[0], columns)) if is_labelled(runs[0]) else []
    if not groups:
        return []
    scores = estimate(*({POOLED: _statistics(run, convention, groups, units)} for run in runs))[POOLED]
    return [
        GroupScore(*group, int(rows.sum()), _certain(f1, units.codes[rows]))
        for (group, rows), f1 in zip(groups, scores.values(), strict=True)
    ]


def _statistics(cases: pl.DataFrame, convention: str, groups: Sequence[Group], units: Units) -> Statistics:
    """Return F1 of each group, in their order, with statistics by unit."""
    clinical = score_statistics(cases, CONVENTIONS[convention], [score_of("f1")])
    table, score = clinical.scores["f1"]
    # records outside the group add nothing to its sums
    tables = {str(place): clinical.tables[table] * rows[:, None] for place, (_, rows) in enumerate(groups)}
    return Statistics(tables, {name: (name, score) for name in tables}).by_unit(units.codes, units.count)


def _certain(score: Estimate, units: np.ndarray) -> Estimate:
    """Remove the interval of a group with too few ``units``."""
    return replace(score, low=None, high=None) if len(np.unique(units)) < LEAST_UNITS else score


def _groups(cases: pl.DataFrame, columns: Sequence[str]) -> Iterator[Group]:
    """Yield the groups of every column with more than one value; records without a value are in none of them."""
    for column, values in _grouped(cases, columns):
        distinct = values.drop_nulls().unique().sort()
        if len(distinct) > 1:
            for value in distinct:
                yield (column, value), (values == value).fill_null(False).to_numpy()


def _grouped(cases: pl.DataFrame, columns: Sequence[str]) -> Iterator[tuple[str, pl.Series]]:
    """Yield each grouping: its name, and its value by record, null if unknown."""
    for name, title in (("view", "View"), ("sections", "Sections")):
        if name in cases.columns:
            yield title, cases[name]
    prior = {context: "with" if availability(context)[1] else "without" for context in CONTEXTS}
    yield "Previous report", cases["context"].replace_strict(prior, default=None, return_dtype=pl.String)
    if "prior_days" in cases.columns:
        age = pl.when(pl.col("prior_days").is_null()).then(None)
        for days, words in _AGES.items():
            age = age.when(pl.col("prior_days") <= days).then(pl.lit(words))
        ages = pl.Enum([*_AGES.values(), _OLDER])
        yield "Age of the previous report", cases.select(age.otherwise(pl.lit(_OLDER)).cast(ages)).to_series()
    labels = np.isin(labels_of(cases, "reference"), (POSITIVE, UNCERTAIN))
    nothing = OBSERVATIONS.index("No Finding")
    findings = np.delete(labels, nothing, axis=1).sum(axis=1)
    yield "Findings in the reference", pl.Series([str(number) if number < 4 else "4 or more" for number in findings])
    yield "Reference", pl.Series(np.where(labels[:, nothing], "normal", "abnormal"))
    words = cases["reference"].str.split(" ").list.len()
    first, second = (int(words.quantile(part, "lower") or 0) for part in (1 / 3, 2 / 3))
    thirds = (f"up to {first} words", f"up to {second} words", "longer")
    lengths = pl.Enum(list(dict.fromkeys(thirds)))
    yield "Length of the reference", pl.Series([thirds[(n > first) + (n > second)] for n in words], dtype=lengths)
    for name in columns:
        yield name, cases[name]
