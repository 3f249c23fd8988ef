"""Resampling: bootstrap intervals of one run's scores, and differences of two runs with approximate
randomization.

Everything works on sums of per-case statistics, so a resample is one row of a matrix product, and
corpus-level scores cost no more than means. The resampled unit keeps all its cases in all contexts
and runs: a patient's examinations are alike, and one examination occurs in several contexts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pacer.display.numbers import p_value, signed
from pacer.metrics.cases import MEAN

#: Context (or ``mean``) and score.
Key = tuple[str, str]
#: Level of all intervals, also as a heading, and the seed of all resamples.
LEVEL, SEED = 0.95, 0
PERCENT = f"{100 * LEVEL:g} %"
#: Minimum number of resampled units (patients, if known) for an interval; with fewer, the spread is
#: unknown. Units with nothing that the score counts are drawn too, but are none of these: they add
#: nothing to the sums, so they do not change the spread. With ten others, fewer than one resample
#: in 20,000 has no value.
LEAST_UNITS = 10
#: Resamples held in memory at a time.
_CHUNK = 500


class Summed(NamedTuple):
    """A score of one context as a function of sums over units. ``rows``: ``[units, k]``; scores
    that share them hold the same array. ``score``: sums ``[..., k]`` -> scores ``[...]``; undefined
    ones are NaN. ``counted``: columns of the rows with the number of findings, or records, that it
    is a share or a mean of; none: every unit counts."""

    rows: np.ndarray
    score: Callable[[np.ndarray], np.ndarray]
    counted: tuple[int, ...] = ()

    @property
    def counts(self) -> np.ndarray:
        """How many findings, or records, of each unit count ``[units]``; 1 if every unit does."""
        return self.rows[:, self.counted].sum(axis=1) if self.counted else np.ones(len(self.rows))


@dataclass(frozen=True)
class Difference:
    """A score of both runs and their difference, second minus first, with its interval and
    two-sided p value; None: undefined, or too few units. The interval leaves out resamples without
    a value; the p value counts them as evidence against a difference. ``units``: how many count in
    both runs; for the mean, the fewest of a context. ``counts``: what the score counts in either
    run."""

    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    units: int = 0
    counts: tuple[int | None, ...] = (None, None)

    def cells(self, p: float | None, decimals: int = 3) -> tuple[str, str, str]:
        """Return the cells for difference, interval and a p value, its own or a corrected one."""
        ends = (self.low, self.high)
        interval = "–" if None in ends else "…".join(signed(end, decimals) for end in ends)
        return signed(self.difference, decimals), interval, p_value(p)


@dataclass(frozen=True)
class Interval:
    """A score of one run and the bootstrap interval of defined resamples; None: undefined, or too
    few units."""

    value: float | None
    low: float | None
    high: float | None


def too_few(units: int, what: str) -> str:
    """Say why there are no intervals."""
    return f"no intervals: {units} {what} are too few; at least {LEAST_UNITS} are needed"


def by_unit(rows: np.ndarray, units: np.ndarray, count: int) -> np.ndarray:
    """Add up rows ``[n, k]`` by unit, ``[count, k]``; ``units`` ``[n]`` are indices."""
    summed = np.zeros((count, rows.shape[1]))
    np.add.at(summed, units, rows)
    return summed


def differences(
    first: Mapping[Key, Summed],
    second: Mapping[Key, Summed],
    resamples: int = 10_000,
    seed: int = SEED,
) -> dict[str, dict[str, Difference]]:
    """Compare two runs, with the same scores over the same units, in every context and in the plain
    mean over contexts.

    The same resamples serve all contexts and scores. Intervals are percentiles of the paired
    bootstrap (units drawn with replacement). p values come from as many approximate randomizations,
    which exchange each unit's results with probability one half: (1 + those with a difference at
    least as large as observed) / (1 + resamples).
    """
    scored, scored_other = _Stack(first), _Stack(second)
    rows, other_rows, draw = scored.rows, scored_other.rows, np.random.default_rng(seed)
    values, other_values = scored(rows.sum(axis=0)), scored_other(other_rows.sum(axis=0))
    both, gap = np.concatenate([rows, other_rows], axis=1), other_rows - rows
    parts = []
    for size in _chunks(resamples):
        drawn, other_drawn = (
            scored(part) for part in np.split(_weights(draw, len(rows), size) @ both, 2, axis=1)
        )
        moved = draw.integers(0, 2, size=(size, len(rows))).astype(float) @ gap
        swapped, other_swapped = (
            scored(rows.sum(axis=0) + moved),
            scored(other_rows.sum(axis=0) - moved),
        )
        parts.append(
            {
                key: np.stack([other_drawn[key] - drawn[key], other_swapped[key] - swapped[key]])
                for key in values
            }
        )
    units = _units(first, second)
    result: dict[str, dict[str, Difference]] = {context: {} for context, _ in values}
    for key, value in values.items():
        difference = float(other_values[key]) - float(value)
        drawn_gaps, swapped_gaps = np.concatenate([part[key] for part in parts], axis=1)
        low, high = _percentiles(difference, drawn_gaps, units[key])
        # rounding: exchanged sums are added in another order
        as_large = np.isnan(swapped_gaps) | (np.abs(swapped_gaps) >= abs(difference) - 1e-12)
        p = None if np.isnan(difference) else (1 + int(as_large.sum())) / (1 + resamples)
        counts = (
            int(run[key].counts.sum()) if key in run and run[key].counted else None
            for run in (first, second)
        )
        of_runs = map(_value, (value, other_values[key], difference))
        result[key[0]][key[1]] = Difference(*of_runs, low, high, p, units[key], tuple(counts))
    return result


def intervals(
    scores: Mapping[Key, Summed], resamples: int = 10_000, seed: int = SEED
) -> dict[str, dict[str, Interval]]:
    """Return percentile bootstrap intervals of one run's scores by context, and of their plain mean
    over contexts; all scores are over the same units, and every context has the same."""
    scored, draw = _Stack(scores), np.random.default_rng(seed)
    observed, units = scored(scored.rows.sum(axis=0)), _units(scores)
    drawn = [
        scored(_weights(draw, len(scored.rows), size) @ scored.rows) for size in _chunks(resamples)
    ]
    result: dict[str, dict[str, Interval]] = {context: {} for context, _ in observed}
    for key, value in observed.items():
        samples = np.concatenate([part[key] for part in drawn])
        result[key[0]][key[1]] = Interval(
            _value(value), *_percentiles(float(value), samples, units[key])
        )
    return result


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Return p values after Holm's step-down correction (Holm 1979); None is not counted as a
    test."""
    order = sorted((p, place) for place, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        adjusted[place] = largest
    return adjusted


class _Stack:
    """The rows of all scores side by side, ``rows`` ``[units, k]``; those of scores that hold the
    same array once::

    precision, recall, f1     bleu1 to bleu4
    columns 0 to 41           columns 42 to 51
    """

    def __init__(self, scores: Mapping[Key, Summed]):
        tables = {id(one.rows): one.rows for one in scores.values()}
        edges = np.cumsum([0, *(rows.shape[1] for rows in tables.values())])
        span = {
            table: slice(a, b) for table, a, b in zip(tables, edges[:-1], edges[1:], strict=True)
        }
        self.scores = {key: (span[id(one.rows)], one.score) for key, one in scores.items()}
        self.rows = np.concatenate(list(tables.values()), axis=1)

    def __call__(self, sums: np.ndarray) -> dict[Key, np.ndarray]:
        """Map sums ``[..., k]`` to scores ``[...]``, with the mean if there are several
        contexts."""
        values = {key: score(sums[..., columns]) for key, (columns, score) in self.scores.items()}
        contexts, names = (list(dict.fromkeys(part)) for part in zip(*values, strict=True))
        if len(contexts) > 1:
            for name in names:
                values[MEAN, name] = np.mean(
                    [values[context, name] for context in contexts], axis=0
                )
        return values


def _units(*runs: Mapping[Key, Summed]) -> dict[Key, int]:
    """Return how many units count for each score in every run; for the mean, the fewest of a
    context."""
    units = {
        key: int(np.all([run[key].counts > 0 for run in runs], axis=0).sum()) for key in runs[0]
    }
    for _, name in runs[0]:
        units[MEAN, name] = min(count for (_, other), count in units.items() if other == name)
    return units


def _chunks(resamples: int) -> list[int]:
    """Return chunk sizes that add up to ``resamples``."""
    return [min(_CHUNK, resamples - start) for start in range(0, resamples, _CHUNK)]


def _weights(draw: np.random.Generator, units: int, size: int) -> np.ndarray:
    """Draw how often each unit occurs in each resample, ``[size, units]``."""
    return draw.multinomial(units, np.full(units, 1 / units), size=size).astype(float)


def _value(value: float | np.ndarray) -> float | None:
    return None if np.isnan(value) else float(value)


def _percentiles(value: float, drawn: np.ndarray, units: int) -> tuple[float | None, float | None]:
    """Return the ends of an interval; none if ``value`` is undefined, or for fewer than
    :data:`LEAST_UNITS`."""
    if np.isnan(value) or units < LEAST_UNITS:
        return None, None
    low, high = np.nanquantile(drawn, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)
