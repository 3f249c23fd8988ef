"""Resampling: bootstrap intervals of one run's scores, and of the difference of two with approximate randomisation.

All work on sums of per-case statistics (:mod:`pacer.comparison.statistics`), so a resample is one row of a matrix
product and corpus-level scores cost no more than means. What is resampled is a unit with all its cases in all contexts
and in all runs: a patient's examinations are alike, and one examination occurs in several contexts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pacer.comparison.statistics import ScoreOf, Statistics
from pacer.metrics.cases import MEAN

#: Context (or ``mean``) and score.
Key = tuple[str, str]
#: Resamples that are held at a time.
_CHUNK = 500


@dataclass(frozen=True)
class Pair:
    """Statistics of one score in one context by unit, ``[units, k]`` of either run, and how sums become the score."""

    first: np.ndarray
    second: np.ndarray
    score: ScoreOf


@dataclass(frozen=True)
class Difference:
    """A score of both runs and their difference, second minus first, with its interval and two-sided p value.

    ``None``: undefined. ``undefined``: resamples in which the difference has no value; the interval leaves them out,
    and the p value counts them against a difference.
    """

    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    undefined: int


@dataclass(frozen=True)
class Interval:
    """A score of one run and its bootstrap interval; ``None``: undefined. ``undefined``: resamples without a value,
    which the interval leaves out."""

    value: float | None
    low: float | None
    high: float | None
    undefined: int


def sums_by_unit(rows: np.ndarray, units: np.ndarray, count: int) -> np.ndarray:
    """Per-case statistics ``[n, k]`` added up by unit ``[count, k]``; ``units`` ``[n]`` are indices."""
    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, units, rows)
    return sums


def differences(
    pairs: Mapping[str, Mapping[str, Pair]], resamples: int = 10_000, seed: int = 0, level: float = 0.95
) -> dict[str, dict[str, Difference]]:
    """Compare two runs in every context and score, and in the plain mean over contexts.

    The same resamples serve all contexts and scores. Intervals are percentiles of the paired bootstrap (units drawn
    with replacement); p values come from approximate randomisation, (1 + resamples with a difference at least as large
    as the observed one) / (1 + resamples), where each unit's two results are exchanged with probability one half.

    Args:
        pairs: context -> score -> statistics, all over the same units; every context has the same scores.
        resamples: of either kind. seed: of both. level: of the intervals.
    """
    scored, other = (
        _Scores({c: {n: Statistics(getattr(p, side), p.score) for n, p in named.items()} for c, named in pairs.items()})
        for side in ("first", "second")
    )
    first, second, draw = scored.rows, other.rows, np.random.default_rng(seed)
    ones, twos = scored(first.sum(axis=0)), scored(second.sum(axis=0))
    both, gap = np.concatenate([first, second], axis=1), second - first
    parts = []
    for size in _chunks(resamples):
        one, two = (scored(part) for part in np.split(_weights(draw, len(first), size) @ both, 2, axis=1))
        moved = draw.integers(0, 2, size=(size, len(first))).astype(float) @ gap
        mine, other = scored(first.sum(axis=0) + moved), scored(second.sum(axis=0) - moved)
        parts.append({key: np.stack([two[key] - one[key], other[key] - mine[key]]) for key in ones})
    result: dict[str, dict[str, Difference]] = {context: {} for context, _ in ones}
    for key, value in ones.items():
        apart = float(twos[key]) - float(value)
        drawn, exchanged = np.concatenate([part[key] for part in parts], axis=1)
        low, high, undefined = _percentiles(apart, drawn, level)
        # rounding: sums that are exchanged as a whole come back in another order
        as_large = np.isnan(exchanged) | (np.abs(exchanged) >= abs(apart) - 1e-12)
        p = None if np.isnan(apart) else (1 + int(as_large.sum())) / (1 + resamples)
        result[key[0]][key[1]] = Difference(_value(value), _value(twos[key]), _value(apart), low, high, p, undefined)
    return result


def intervals(
    scores: Mapping[str, Mapping[str, Statistics]], resamples: int = 10_000, seed: int = 0, level: float = 0.95
) -> dict[str, dict[str, Interval]]:
    """Percentile bootstrap of one run's scores in every context, and of their plain mean over contexts.

    Args:
        scores: context -> score -> statistics by unit, all over the same units; every context has the same scores.
        resamples, seed, level: as those of :func:`differences`.
    """
    scored, draw = _Scores(scores), np.random.default_rng(seed)
    observed = scored(scored.rows.sum(axis=0))
    drawn = [scored(_weights(draw, len(scored.rows), size) @ scored.rows) for size in _chunks(resamples)]
    result: dict[str, dict[str, Interval]] = {context: {} for context, _ in observed}
    for key, value in observed.items():
        result[key[0]][key[1]] = Interval(
            _value(value), *_percentiles(float(value), np.concatenate([part[key] for part in drawn]), level)
        )
    return result


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p values after Holm's step-down correction (Holm 1979); those that are None are no tests."""
    order = sorted((p, place) for place, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        adjusted[place] = largest
    return adjusted


class _Scores:
    """Statistics of several scores side by side; ``rows`` ``[units, k]`` has each table once, whoever shares it."""

    def __init__(self, scores: Mapping[str, Mapping[str, Statistics]]):
        self.scores = scores
        tables = {id(one.rows): one.rows for named in scores.values() for one in named.values()}
        edges = np.cumsum([0, *(table.shape[1] for table in tables.values())])
        self.span = {name: slice(a, b) for name, a, b in zip(tables, edges[:-1], edges[1:], strict=True)}
        self.rows = np.concatenate(list(tables.values()), axis=1)

    def __call__(self, sums: np.ndarray) -> dict[Key, np.ndarray]:
        """Sums ``[..., k]`` -> (context, score) -> ``[...]``, with the mean where there are several contexts."""
        values = {
            (context, name): one.score(sums[..., self.span[id(one.rows)]])
            for context, named in self.scores.items()
            for name, one in named.items()
        }
        if len(self.scores) > 1:
            for name in next(iter(self.scores.values())):
                values[MEAN, name] = np.mean([values[context, name] for context in self.scores], axis=0)
        return values


def _chunks(resamples: int) -> list[int]:
    """Sizes that add up to ``resamples``."""
    return [min(_CHUNK, resamples - start) for start in range(0, resamples, _CHUNK)]


def _weights(draw: np.random.Generator, units: int, size: int) -> np.ndarray:
    """How often each unit is drawn, ``[size, units]``."""
    return draw.multinomial(units, np.full(units, 1 / units), size=size).astype(float)


def _value(value: float | np.ndarray) -> float | None:
    return None if np.isnan(value) else float(value)


def _percentiles(value: float, drawn: np.ndarray, level: float) -> tuple[float | None, float | None, int]:
    """Both ends of an interval, and in how many resamples there is no value; no ends where ``value`` is undefined."""
    undefined = int(np.isnan(drawn).sum())
    if np.isnan(value):
        return None, None, undefined
    low, high = np.nanquantile(drawn, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high), undefined
