"""F1 of groups of records, such as those of one view, in one run or in two: which records are reported worse?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

import numpy as np
import polars as pl

from pacer.core.contexts import CONTEXTS, availability
from pacer.metrics.cases import is_labelled, labels_of
from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.metrics.clinical import CONVENTIONS, averaged, label_rows
from pacer.metrics.statistics.bootstrap import (
    LEAST_UNITS,
    Difference,
    Interval,
    Key,
    Summed,
    by_unit,
    differences,
    intervals,
)
from pacer.metrics.statistics.intervals import POOLED, Units, resampled_units

Estimate = TypeVar("Estimate", Interval, Difference)
#: Column and value of a group, and a Boolean mask ``[n]`` of its records.
Group = tuple[str, str, np.ndarray]


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
    return _estimated([cases], convention, columns, lambda run: intervals(run, resamples))


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
    """Return the groups of the first run; those of too few units have no interval."""
    units = resampled_units(runs[0])
    groups = list(_groups(runs[0], columns)) if is_labelled(runs[0]) else []
    if not groups:
        return []
    scores = estimate(*(_f1(run, convention, groups, units) for run in runs))[POOLED]
    found = []
    for (column, value, rows), f1 in zip(groups, scores.values(), strict=True):
        is_small = len(np.unique(units.codes[rows])) < LEAST_UNITS
        f1 = replace(f1, low=None, high=None) if is_small else f1
        found.append(GroupScore(column, value, int(rows.sum()), f1))
    return found


def _f1(cases: pl.DataFrame, convention: str, groups: Sequence[Group], units: Units) -> dict[Key, Summed]:
    """Return F1 of each group, in their order; records outside a group add nothing to its sums."""
    rule = CONVENTIONS[convention]
    rows, f1 = label_rows(cases, rule), partial(averaged, ratio="f1", average=rule.averages[0])
    tables = (by_unit(rows * chosen[:, None], units.codes, units.count) for _, _, chosen in groups)
    return {(POOLED, str(place)): Summed(table, f1) for place, table in enumerate(tables)}


def _groups(cases: pl.DataFrame, columns: Sequence[str]) -> Iterator[Group]:
    """Yield the groups of every column with more than one value; records without a value are in none of them."""
    prior = {context: "with" if availability(context)[1] else "without" for context in CONTEXTS}
    labels = np.isin(labels_of(cases, "reference"), (POSITIVE, UNCERTAIN))
    findings = np.delete(labels, OBSERVATIONS.index("No Finding"), axis=1).sum(axis=1)
    groupings = [
        *(("View", cases[name]) for name in ("view",) if name in cases.columns),
        ("Previous report", cases["context"].replace_strict(prior, default=None, return_dtype=pl.String)),
        ("Findings in the reference", pl.Series([str(number) if number < 4 else "4 or more" for number in findings])),
        *((name, cases[name]) for name in columns),
    ]
    for column, values in groupings:
        distinct = values.drop_nulls().unique().sort()
        if len(distinct) > 1:
            for value in distinct:
                yield column, value, (values == value).fill_null(False).to_numpy()
