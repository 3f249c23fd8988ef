"""F1 of groups of records, such as those of one view, in one run or in two: which records are reported worse?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from pacer.comparison.case_statistics import POOLED, clinical_statistics, is_labelled, resampled_units
from pacer.comparison.resampling import Difference, Interval, Pair, differences, intervals, sums_by_unit
from pacer.comparison.statistics import Statistics
from pacer.core.contexts import CONTEXTS, availability
from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.metrics.conventions import CONVENTIONS

#: Patients (or what is resampled) that an interval needs; with fewer, nothing is known of the spread.
LEAST_UNITS = 10
_AGES = {0: "same day", 7: "up to a week", 90: "up to 90 days", 365: "up to a year"}
_OLDER = "over a year"


@dataclass(frozen=True)
class GroupScore:
    """F1 of the ``n`` records, of all contexts together, that have ``value`` in ``column``."""

    column: str
    value: str
    n: int
    f1: Interval


@dataclass(frozen=True)
class GroupDifference:
    """The same of two runs; without p values, which so many groups would give by chance."""

    column: str
    value: str
    n: int
    f1: Difference


class _Group(NamedTuple):
    """``rows``: which records are in it, Boolean ``[n]``."""

    column: str
    value: str
    rows: np.ndarray


def group_scores(
    cases: pl.DataFrame, convention: str, columns: Sequence[str] = (), resamples: int = 10_000, level: float = 0.95
) -> list[GroupScore]:
    """Every group of a run with its bootstrap interval.

    Args:
        cases: ``cases.parquet``. columns: those of it that are groups beside the pipeline's.
    """
    _, codes, count = resampled_units(cases)
    groups, one = list(_groups(cases, columns)), clinical_statistics(cases, CONVENTIONS[convention])["f1"]
    sums = {str(place): Statistics(_sums(one, group, codes, count), one.score) for place, group in enumerate(groups)}
    found = intervals({POOLED: sums}, resamples, level=level)[POOLED] if sums else {}
    result = []
    for place, group in enumerate(groups):
        f1 = found[str(place)]
        if _is_small(group, codes):
            f1 = replace(f1, low=None, high=None)
        result.append(GroupScore(group.column, group.value, int(group.rows.sum()), f1))
    return result


def group_differences(
    first: pl.DataFrame,
    second: pl.DataFrame,
    convention: str,
    columns: Sequence[str] = (),
    unit: str | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> list[GroupDifference]:
    """Every group in two runs of the same records, row by row; the groups are those of ``first``. None where the runs
    have no labels."""
    if not is_labelled(first):
        return []
    _, codes, count = resampled_units(first, unit)
    groups = list(_groups(first, columns))
    one, two = (clinical_statistics(cases, CONVENTIONS[convention])["f1"] for cases in (first, second))
    pairs = {
        str(place): Pair(_sums(one, group, codes, count), _sums(two, group, codes, count), one.score)
        for place, group in enumerate(groups)
    }
    found = differences({POOLED: pairs}, resamples, seed, level)[POOLED] if pairs else {}
    result = []
    for place, group in enumerate(groups):
        f1 = replace(found[str(place)], p=None)
        if _is_small(group, codes):
            f1 = replace(f1, low=None, high=None)
        result.append(GroupDifference(group.column, group.value, int(group.rows.sum()), f1))
    return result


def _groups(cases: pl.DataFrame, columns: Sequence[str]) -> Iterator[_Group]:
    """The groups of every column that has more than one value; records without a value are in none of them."""
    for column, values in _grouped(cases, columns):
        known = values.drop_nulls().unique().sort()
        if len(known) > 1:
            for value in known:
                yield _Group(column, value, (values == value).fill_null(False).to_numpy())


def _grouped(cases: pl.DataFrame, columns: Sequence[str]) -> Iterator[tuple[str, pl.Series]]:
    """Name and value by record of what the records are grouped by; null where it is not known."""
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
    labels = np.isin(np.array(cases["reference_labels"].to_list()), (POSITIVE, UNCERTAIN))
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


def _sums(one: Statistics, group: _Group, codes: np.ndarray, count: int) -> np.ndarray:
    return sums_by_unit(one.rows[group.rows], codes[group.rows], count)


def _is_small(group: _Group, codes: np.ndarray) -> bool:
    return len(np.unique(codes[group.rows])) < LEAST_UNITS
