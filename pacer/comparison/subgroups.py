"""Scores of groups of records, and whether a group differs from the rest.

F1 and means of records are ratios of sums over patients (examinations or records, where patients are not known), so
their variance follows from how much each patient moves the ratio (the linearised ratio estimator, Cochran 1977,
chapter 6), and needs no resampling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from scipy import stats

from pacer.comparison.case_statistics import label_rows, resampled_units
from pacer.comparison.groups import holm
from pacer.comparison.resampling import Difference, Interval, sums_by_unit
from pacer.core.contexts import CONTEXTS, availability
from pacer.core.errors import ConfigError
from pacer.metrics.cases import GROUP, external_columns
from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.metrics.conventions import CONVENTIONS

#: Patients that an interval needs, and for a test both sides; with fewer, nothing is known of its spread.
LEAST_UNITS = 10
_LEVEL = 0.95
_AGES = {0: "same day", 7: "up to a week", 90: "up to 90 days", 365: "up to a year"}
_OLDER = "over a year"


@dataclass(frozen=True)
class Subgroup:
    """A score of the records that have ``value`` in ``column``, against all others that have another value there.

    ``n``: records; ``units``: patients among them, or what ``unit`` says. ``difference``: the rest first, with 95 %
    interval and p value; ``adjusted``: p after Holm's correction over all tests. ``None``: not tested (of two groups
    the second is the rest of the first; see :data:`LEAST_UNITS`).
    """

    column: str
    value: str
    n: int
    units: int
    score: Interval
    difference: Difference | None = None
    adjusted: float | None = None
    unit: str = "subject"


def subgroups(cases: pl.DataFrame, convention: str, score: str = "f1") -> list[Subgroup]:
    """Every group of :func:`grouped` columns with more than one value, in their order.

    Args:
        cases: ``cases.parquet``. score: ``f1`` (micro, over the observations of ``convention``), ``rougeL``, or one of
            an external scorer.

    Raises:
        ConfigError: the score is none of these.
    """
    rows = _ratio_rows(cases, convention, score)
    unit, codes, count = resampled_units(cases)
    found = []
    for column, labels in grouped(cases):
        values = [value for value in labels.unique().sort() if value is not None]
        if len(values) < 2:
            continue
        for place, value in enumerate(values):
            own, rest = ((labels == value).fill_null(False), (labels != value).fill_null(False))
            mine, others = (_Ratio(rows[part], codes[part], count) for part in map(pl.Series.to_numpy, (own, rest)))
            difference = None if place and len(values) == 2 else _difference(mine, others)
            interval = mine.interval() if "/" in score else _within_0_and_1(mine.interval())
            found.append(Subgroup(column, value, int(own.sum()), mine.units, interval, difference, unit=unit))
    adjusted = holm([group.difference.p if group.difference else None for group in found])
    return [replace(group, adjusted=p) for group, p in zip(found, adjusted, strict=True)]


def grouped(cases: pl.DataFrame) -> Iterator[tuple[str, pl.Series]]:
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
    for name in cases.columns:
        if name.startswith(GROUP):
            yield name.removeprefix(GROUP), cases[name]


class _Ratio:
    """The ratio of two sums over units, from rows ``[n, 2]`` of their parts and the units ``[n]`` they belong to."""

    def __init__(self, rows: np.ndarray, codes: np.ndarray, count: int):
        sums = sums_by_unit(rows, codes, count)
        top, bottom = sums.sum(axis=0)
        self.present = np.bincount(codes, minlength=count) > 0
        self.units = int(self.present.sum())
        self.value = top / bottom if bottom else float("nan")
        #: How much each unit moves the ratio ``[units]``.
        self.influence = (sums[:, 0] - self.value * sums[:, 1]) / bottom if bottom else np.full(count, np.nan)

    def interval(self) -> Interval:
        enough = self.units >= LEAST_UNITS
        low, high, _ = _estimate(self.value, self.influence, self.units, self.units - 1) if enough else (None,) * 3
        return Interval(None if np.isnan(self.value) else self.value, low, high, 0)


def _within_0_and_1(found: Interval) -> Interval:
    if found.low is None or found.high is None:
        return found
    return replace(found, low=max(0.0, found.low), high=min(1.0, found.high))


def _difference(own: _Ratio, rest: _Ratio) -> Difference | None:
    """A patient may have records on both sides."""
    apart, least = own.value - rest.value, min(own.units, rest.units)
    if np.isnan(apart) or least < LEAST_UNITS:
        return None
    units = int((own.present | rest.present).sum())
    return Difference(
        rest.value, own.value, apart, *_estimate(apart, own.influence - rest.influence, units, least - 1), 0
    )


def _estimate(
    value: float, influence: np.ndarray, units: int, freedom: int
) -> tuple[float | None, float | None, float | None]:
    """Interval and two-sided p value of ``value`` against 0, by Student's t; None where there is no variance."""
    if freedom < 1 or np.isnan(value):
        return None, None, None
    error = float(np.sqrt(units / (units - 1) * (influence**2).sum()))
    if error == 0:
        return None, None, None
    reach = float(stats.t.ppf((1 + _LEVEL) / 2, freedom)) * error
    return value - reach, value + reach, float(2 * stats.t.sf(abs(value) / error, freedom))


def _ratio_rows(cases: pl.DataFrame, convention: str, score: str) -> np.ndarray:
    """Numerator and denominator of each record ``[n, 2]``."""
    if score == "f1":
        hits, predicted, present = label_rows(cases, CONVENTIONS[convention]).reshape(len(cases), 3, -1).sum(-1).T
        return np.stack([2 * hits, predicted + present], axis=1)
    means = ["rougeL", *external_columns(cases)]
    if score not in means:
        raise ConfigError(f"score {score!r} is not one of {', '.join(['f1', *means])}")
    return np.stack([cases[score].to_numpy(), np.ones(len(cases))], axis=1)
