"""The statistics behind intervals and p values: patients are split into random halves, and each
half is scored on its own. ``docs/statistics.md`` derives the method and says how often it errs.

A score is a function of sums of per-case statistics, so the sums of all halves are one matrix
product, and scores of a corpus cost no more than means. A unit (a patient, if patients are known)
keeps all its cases in all contexts and runs.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.special import betaincinv, ndtri, stdtrit

from pacer.metrics.cases import MEAN, UNKNOWN, by_context
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.score_kinds import Score, defined
from pacer.metrics.scores import score_of, scores_with_intervals

#: Context (or ``mean``) and score.
Key = tuple[str, str]
#: Units that may be split into halves, the coarsest first, with their names in tables.
UNITS = {"subject": "patients", "study": "examinations", "record": "records"}
#: Level of all intervals, also as a heading, and the seed of all splits.
LEVEL = 0.95
SEED = 0
PERCENT = f"{100 * LEVEL:g}%"
#: Minimum number of units that count, for an interval and a p value. A unit with nothing that the
#: score counts does not count itself.
LEAST_UNITS = 10
#: Maximum share of halves in which a score may be undefined, for an interval and a p value.
MOST_UNDEFINED = 0.01
#: Minimum number of splits: with fewer, p could not reach .05.
LEAST_SPLITS = 19
#: Differences below this share of the scores are rounding errors.
_ROUNDING = 1e-12
#: Splits held in memory at a time.
_CHUNK = 250


class Units(NamedTuple):
    """The unit that is split into halves, one of :data:`UNITS`; ``codes``: its index in each row
    ``[n]``; ``count``: how many; ``note``: a sentence on records whose id is blank, if any."""

    name: str
    codes: np.ndarray
    count: int
    note: str = ""


def units_of(cases: pl.DataFrame) -> Units:
    """Return the coarsest unit that is known for any record. A record without its id is grouped by
    study or, without a study id, is a unit of its own."""
    names = [unit for unit in UNITS if f"{unit}_id" in cases.columns]
    # the cast: a column of nulls has no texts
    ids = {unit: pl.col(f"{unit}_id").cast(pl.String) for unit in names}
    known = cases.select(
        **{unit: pl.when(of.str.strip_chars() != "").then(of) for unit, of in ids.items()}
    )
    names = [unit for unit in names if known[unit].count()]
    named = known.select(pl.coalesce(pl.format(f"{unit} {{}}", unit) for unit in names))
    codes = named.to_series().rank("dense").to_numpy().astype(int) - 1
    blank, units = known[names[0]].null_count(), UNITS[names[0]]
    note = (
        f"{blank:,} of {len(cases):,} records have no {units[:-1]} id and count as {units} of "
        "their own"
    )
    return Units(names[0], codes, int(codes.max()) + 1, note if blank else "")


class Summed(NamedTuple):
    """A score of one context as a function of sums over units. ``rows``: ``[units, k]``; scores
    that share them hold the same array. ``score``: sums ``[..., k]`` -> scores ``[...]``; undefined
    ones are NaN. ``counted``: columns of the rows with the number of findings, or records, that it
    is a share or a mean of; empty: every unit with a record counts. ``records``: the number of
    records of each unit in the context; None: every unit has one."""

    rows: np.ndarray
    score: Callable[[np.ndarray], np.ndarray]
    counted: tuple[int, ...] = ()
    records: np.ndarray | None = None

    @property
    def counts(self) -> np.ndarray:
        """How many findings, or records, of each unit count ``[units]``; 1 for every unit with a
        record, if there are no ``counted``."""
        if self.counted:
            return self.rows[:, self.counted].sum(axis=1)
        if self.records is None:
            return np.ones(len(self.rows))
        return (self.records > 0).astype(float)

    @property
    def is_bounded(self) -> bool:
        """Whether the score lies between 0 and 1 for every unit."""
        of_units = self.score(self.rows)
        return not ((of_units < -_ROUNDING) | (of_units > 1 + _ROUNDING)).any()


def by_unit(rows: np.ndarray, units: np.ndarray, count: int) -> np.ndarray:
    """Add up rows ``[n, k]`` by unit, ``[count, k]``; ``units`` ``[n]`` are indices."""
    summed = np.zeros((count, rows.shape[1]))
    np.add.at(summed, units, rows)
    return summed


def context_sums(
    cases: pl.DataFrame, convention: str, scores: Iterable[Score], units: Units
) -> dict[Key, Summed]:
    """Return the ``scores`` that have sums, by context and over units."""
    rule = CONVENTIONS[convention]
    chosen = [(score, score.sums) for score in scores if score.sums is not None]
    found: dict[Key, Summed] = {}
    functions = {sums.per_case: score.needs for score, sums in chosen}  # scores share them
    for context, part in by_context(cases).items():
        codes = units.codes[(cases["context"] == context).to_numpy()]
        records = np.bincount(codes, minlength=units.count)
        tables = {
            per_case: by_unit(per_case(part.select(needs), rule), codes, units.count)
            for per_case, needs in functions.items()
        }
        for score, sums in chosen:
            found[context, score.key] = Summed(
                tables[sums.per_case],
                lambda total, score=sums.score: score(total, rule),
                sums.counted,
                records,
            )
    return found


@dataclass(frozen=True)
class Interval:
    """A score of one run and its interval. None: undefined, too few units count, or the score is
    undefined in too many halves."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Intervals:
    """``scores``: context (and ``mean``) -> score -> interval. ``unit``: what was split into
    halves; ``units``: how many. ``note``: see :class:`Units`."""

    scores: dict[str, dict[str, Interval]]
    unit: str
    units: int
    resamples: int
    note: str = ""


def score_intervals(
    cases: pl.DataFrame,
    convention: str,
    resamples: int = 10_000,
    columns: Sequence[str] = (),
    without: Collection[str] = (),
) -> Intervals:
    """Return the intervals of scores by context, and for the mean of the contexts. ``columns`` and
    ``without``: as for :func:`~pacer.metrics.scores.scores_with_intervals`."""
    units = units_of(cases)
    summed = context_sums(cases, convention, scores_with_intervals(cases, columns, without), units)
    scores = intervals(summed, resamples)
    # with one of the four contexts, its intervals are also those of the mean; `all` has no mean
    if len(scores) == 1 and UNKNOWN not in scores:
        scores[MEAN] = next(iter(scores.values()))
    return Intervals(scores, units.name, units.count, resamples, units.note)


def intervals(
    scores: Mapping[Key, Summed], resamples: int = 10_000
) -> dict[str, dict[str, Interval]]:
    """Return intervals of one run's scores by context, and of their plain mean over contexts; all
    scores are over the same units, and every context has the same scores. A score between 0 and 1
    for every unit has :func:`share_interval`; another one has the percentiles of the halves."""
    [total], [halves] = _scored([scores], resamples)
    observed = _with_mean(total)
    units = _units(scores)
    is_bounded = _with_least({key: one.is_bounded for key, one in scores.items()})
    effective = _with_least({key: effective_units(one.counts) for key, one in scores.items()})
    result: dict[str, dict[str, Interval]] = {context: {} for context, _ in observed}
    for key, drawn in _with_mean(halves).items():
        value = float(observed[key])
        low = high = None
        if _is_shown(value, drawn, units[key]):
            if is_bounded[key]:
                ends = share_interval(value, variance(drawn), effective[key])
            else:
                ends = interval_and_p(drawn)[:2]
            low, high = map(float, ends)
        context, name = key
        result[context][name] = Interval(defined(value), low, high)
    return result


@dataclass(frozen=True)
class Difference:
    """A score of both runs and their difference, second minus first, with its interval and
    two-sided p value. None: undefined, too few units count, or the score is undefined in too many
    halves. ``units``: how many count in both runs; for the mean, the fewest of a context.
    ``counts``: what the score counts in either run."""

    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    units: int = 0
    counts: tuple[int | None, ...] = (None, None)


def gains(
    given: pl.DataFrame,
    twins: pl.DataFrame,
    convention: str,
    scores: Sequence[str],
    resamples: int = 10_000,
) -> dict[str, dict[str, Difference]]:
    """Return the scores of ``twins`` (``first``) and of ``given`` (``second``), which have the same
    records in the same order, and their differences, by context and for the mean."""
    chosen, units = list(map(score_of, scores)), units_of(given)
    first, second = (context_sums(cases, convention, chosen, units) for cases in (twins, given))
    return differences(first, second, resamples)


def differences(
    first: Mapping[Key, Summed],
    second: Mapping[Key, Summed],
    resamples: int = 10_000,
) -> dict[str, dict[str, Difference]]:
    """Compare two runs, with the same scores over the same units, in every context and in the plain
    mean over contexts. ``resamples``: random splits into halves, at least :data:`LEAST_SPLITS`; the
    same serve all contexts and scores."""
    runs = (first, second)
    totals, halves = _scored(runs, resamples)
    gaps = {
        key: half_differences(
            [total[key] for total in totals],
            [half[key] for half in halves],
            [run[key].counts.sum() for run in runs],
        )
        for key in first
    }
    units = _units(first, second)
    shares = {name for (_, name), one in first.items() if one.counted}
    before, after = map(_with_mean, totals)
    result: dict[str, dict[str, Difference]] = {context: {} for context, _ in before}
    for key, drawn in _with_mean(gaps).items():
        context, name = key
        value, other = float(before[key]), float(after[key])
        low = high = p = None
        if _is_shown(other - value, drawn, units[key]):
            if name not in shares:
                drawn = without_bias(other - value, drawn)
            rounding = _ROUNDING * max(abs(value), abs(other))
            low, high, p = map(float, interval_and_p(drawn, rounding))
        counts = (
            int(run[key].counts.sum()) if key in run and run[key].counted else None for run in runs
        )
        numbers = map(defined, (value, other, other - value))
        result[context][name] = Difference(*numbers, low, high, p, units[key], tuple(counts))
    return result


def half_differences(
    values: Sequence[np.ndarray], halves: Sequence[np.ndarray], counts: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the differences in all halves ``[halves, ...]``, second minus first, from both runs'
    scores ``[...]``, their scores in the halves, and what they count. Where the runs count
    different numbers of findings, the differences are stretched around the observed one, as if the
    findings of both runs varied alike."""
    gap = values[1] - values[0]
    spread, other_spread = map(variance, halves)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.asarray(counts[0] / counts[1])
        alike = (spread * ratio + other_spread / ratio) / (spread + other_spread)
    stretch = np.sqrt(np.fmax(alike, 1.0))
    return gap + stretch * (halves[1] - halves[0] - gap)


def without_bias(gap: float | np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Move the differences in all halves ``[halves, ...]`` towards 0 where they lie farther from it
    than the observed one, ``gap``, on average: by twice this excess."""
    beyond = _mean_of_defined(drawn - gap)
    return drawn - 2 * np.where(beyond * gap > 0, beyond, 0)


def variance(halves: np.ndarray) -> np.ndarray:
    """Return the variance ``[...]`` of the defined scores in the halves ``[halves, ...]``; NaN
    without any."""
    return _mean_of_defined((halves - _mean_of_defined(halves)) ** 2)


def _mean_of_defined(halves: np.ndarray) -> np.ndarray:
    known = ~np.isnan(halves)
    with np.errstate(invalid="ignore"):
        return np.where(known, halves, 0).sum(axis=0) / known.sum(axis=0)


def interval_and_p(
    drawn: np.ndarray, rounding: float | np.ndarray = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both ends of the interval and p, each ``[...]``, from the differences in all halves,
    ``[2 * splits, ...]``; or from the scores of one system, whose p means nothing. A half without a
    value counts as minus infinity for the lower end, as infinity for the upper end, and against a
    difference for p. ``rounding``: smaller differences are 0."""
    splits = len(drawn) // 2
    drawn = np.where(np.abs(drawn) <= rounding, 0.0, drawn)
    undefined = np.isnan(drawn)
    place = int((1 - LEVEL) * (1 + splits))  # 5% of the splits are 2.5% of the halves
    lowest, highest = (np.where(undefined, end, drawn) for end in (-np.inf, np.inf))
    low = np.partition(lowest, place - 1, axis=0)[place - 1]
    high = np.partition(highest, -place, axis=0)[-place]
    # two-sided: twice the share of the halves, of which there are twice as many as splits
    against = np.minimum((lowest <= 0).sum(axis=0), (highest >= 0).sum(axis=0))
    return low, high, np.minimum(1.0, (1 + against) / (1 + splits))


def effective_units(counts: np.ndarray) -> np.ndarray:
    """Return Kish's effective number of units with these counts ``[units, ...]``: fewer than there
    are, if some of them have most of the findings."""
    return counts.sum(axis=0) ** 2 / np.maximum((counts**2).sum(axis=0), 1)


def share_interval(
    value: float | np.ndarray, spread: float | np.ndarray, units: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of a share, or of another score between 0 and 1: the exact binomial
    interval (Clopper and Pearson) of as many independent cases as would give the variance
    ``spread``. They are fewer for a variance that is estimated from few ``units`` (their effective
    number), and as many as units if it is 0 (Korn and Graubard 1998)."""
    units = np.maximum(units, 2.0)
    tail = (1 - LEVEL) / 2
    # the halves' variance is that within these units; Bessel's factor makes it one of new units
    with np.errstate(divide="ignore", invalid="ignore"):
        cases = np.where(
            spread > _ROUNDING**2, value * (1 - value) / spread * (units - 1) / units, units
        )
    cases = cases * (ndtri(tail) / stdtrit(units - 1, tail)) ** 2
    hits, misses = cases * value, cases * (1 - value)
    low = np.where(hits > 0, betaincinv(np.maximum(hits, _ROUNDING), misses + 1, tail), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 1, np.maximum(misses, _ROUNDING), 1 - tail), 1.0)
    return low, high


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Return p values after Holm's step-down correction (Holm 1979); None is not counted as a
    test."""
    tests = sorted(p for p in values if p is not None)
    corrected = accumulate((min(1.0, p * (len(tests) - i)) for i, p in enumerate(tests)), max)
    adjusted = dict(zip(tests, corrected, strict=True))
    return [None if p is None else adjusted[p] for p in values]


def too_few(units: int, what: str) -> str:
    """Return the reason why there are no intervals and p values."""
    return f"{units} {what} are too few; at least {LEAST_UNITS} are needed"


def _scored(
    runs: Sequence[Mapping[Key, Summed]], resamples: int
) -> tuple[list[dict[Key, np.ndarray]], list[dict[Key, np.ndarray]]]:
    """Return the scores of each run over all units, and in both halves of ``resamples`` random
    splits, the same for every run."""
    draw = np.random.default_rng(SEED)
    units = len(next(iter(runs[0].values())).rows)
    parts: list[list[dict[Key, np.ndarray]]] = [[] for _ in runs]
    for start in range(0, resamples, _CHUNK):
        size = (min(_CHUNK, resamples - start), units)
        # a fair coin for each unit, so the halves need not be equally large
        in_half = draw.integers(0, 2, size=size).astype(float)
        # the second half is added up as well; the total minus the first half would not be exactly 0
        # where the second half has nothing
        both = np.concatenate([in_half, 1 - in_half])
        for run, scored in zip(runs, parts, strict=True):
            scored.append(_scores_of(run, both.__matmul__))
    totals = [_scores_of(run, lambda rows: rows.sum(axis=0)) for run in runs]
    halves = [
        {key: np.concatenate([part[key] for part in scored]) for key in run}
        for run, scored in zip(runs, parts, strict=True)
    ]
    return totals, halves


def _scores_of(
    run: Mapping[Key, Summed], add: Callable[[np.ndarray], np.ndarray]
) -> dict[Key, np.ndarray]:
    """Return scores ``[...]`` of the sums ``[..., k]`` that ``add`` makes of rows, once for scores
    that hold the same array."""
    tables = {id(one.rows): one.rows for one in run.values()}
    sums = {name: add(rows) for name, rows in tables.items()}
    return {key: one.score(sums[id(one.rows)]) for key, one in run.items()}


def _with_mean(values: dict[Key, np.ndarray]) -> dict[Key, np.ndarray]:
    """Add the mean over contexts, if there are several."""
    contexts = list(dict.fromkeys(context for context, _ in values))
    names = list(dict.fromkeys(name for _, name in values))
    if len(contexts) == 1:
        return values
    means = {
        (MEAN, name): np.mean([values[context, name] for context in contexts], axis=0)
        for name in names
    }
    return values | means


def _with_least(numbers: dict[Key, Any]) -> dict[Key, Any]:
    """Add the least value of all contexts for the mean (of truth values: whether all are true). If
    there is only one context, there is no mean, and nobody reads these entries."""
    least = {
        (MEAN, name): min(number for (_, other), number in numbers.items() if other == name)
        for _, name in numbers
    }
    return numbers | least


def _units(*runs: Mapping[Key, Summed]) -> dict[Key, int]:
    """Return how many units count for each score in every run."""
    return _with_least(
        {key: int(np.all([run[key].counts > 0 for run in runs], axis=0).sum()) for key in runs[0]}
    )


def _is_shown(value: float, drawn: np.ndarray, units: int) -> bool:
    """Return whether a score has an interval and a p value."""
    undefined = np.isnan(drawn).mean()
    return not np.isnan(value) and units >= LEAST_UNITS and undefined <= MOST_UNDEFINED
