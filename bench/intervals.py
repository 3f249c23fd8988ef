"""How often do p values and intervals err? Made patients, two systems that are equally good.

``OPENBLAS_NUM_THREADS=1 python bench/intervals.py CELLS`` draws data sets of each population (as
``pacer compare`` would sum them up by patient), tests them and appends a line to the file CELLS for
each cell: a population with a number of patients. Cells that are in the file are skipped, so a
stopped run goes on. ``--table`` writes the cells as Markdown instead.

Side by side stand the test and interval that PACER had before (approximate randomization; the
percentile bootstrap) and the present ones (random halves of the patients, the functions of
``pacer.metrics.statistics.halves``). Only data sets for which the present ones print p are counted.
False positives: p at most .05 or .01 where there is no difference. Covers: the interval holds the
true value. One side: the interval lies wholly above 0, or below, whichever is more frequent. With
10,000 data sets, a share of .05 has a standard error of .002.
"""

import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring import options_of, table

from pacer.metrics.clinical import Average, averaged
from pacer.metrics.commitments import attribute_share
from pacer.metrics.nlg import bleu, meteor
from pacer.metrics.score_kinds import mean
from pacer.metrics.statistics.halves import (
    LEAST_UNITS,
    MOST_UNDEFINED,
    as_many,
    half_differences,
    interval_and_p,
    share_interval,
    variance,
    without_bias,
)

SEED, SPLITS, SIZES = 20261129, 1000, (10, 20, 40, 100, 300)
#: Numbers of a batch of data sets that are held in memory at a time.
MOST = 2_000_000
#: It is measured, too, but PACER neither tests it nor gives it an interval.
MACRO = "macro-F1"
Rows = np.ndarray


class Part(NamedTuple):
    """One score over some columns; a population has several where contexts or runs are averaged."""

    columns: slice
    score: Callable[[np.ndarray], np.ndarray]
    counted: tuple[int, ...] = ()


class Population(NamedTuple):
    """``draw(rng, data sets, patients, effect)``: rows of both systems, ``[data sets, patients,
    k]``; the second is better by about ``effect``."""

    draw: Callable[[np.random.Generator, int, int, float], tuple[Rows, Rows]]
    parts: tuple[Part, ...]
    width: int


# Populations


def findings(rng: np.random.Generator, shape: tuple[int, ...], many: str) -> np.ndarray:
    """Draw how many findings patients have: mostly one to three, or with heavy tails."""
    if many == "few":
        return 1 + rng.poisson(0.9, shape)
    return np.minimum(np.floor(rng.lognormal(0.3, 1.2, shape)).astype(int) + 1, 60)


def hard_share(rng: np.random.Generator, number: np.ndarray, many: str) -> np.ndarray:
    """Draw the share of hard findings of patients; with ``worse``, those with many have more."""
    if many == "worse":
        return np.minimum(0.2 + 0.04 * number, 0.9)
    return rng.random(number.shape)


def shares(
    affirmed: tuple[float, float],
    rate: float,
    many: str = "few",
    easy: float = 0.0,
    contexts: int = 1,
    runs: int = 1,
    spread: float = 0.0,
) -> Population:
    """The share that is right of the findings that either system affirms. ``easy``: how far easy
    findings, which are more often right, are affirmed more often. ``contexts``: a patient has some
    of them. ``runs``: of either system, whose rates differ by ``spread``."""
    known = np.random.default_rng(SEED)
    number = findings(known, (1_000_000,), "heavy" if many == "worse" else many)
    hard = (number * hard_share(known, number, many)).sum() / number.sum()
    weights, base = np.array([1 - hard, hard]), np.array([0.4, 1.6])
    told = [share + easy * min(share, 1 - share) * np.array([1, -1]) for share in affirmed]
    error = [(of * weights * base).sum() / (of * weights).sum() for of in told]

    def draw(rng: np.random.Generator, sets: int, n: int, effect: float) -> tuple[Rows, Rows]:
        ability, sides = 2 * rng.beta(2, 2, sets * n), ([], [])
        for _ in range(contexts):
            m = findings(rng, (sets * n,), "heavy" if many == "worse" else many)
            m *= (rng.random(m.shape) < 0.6) if contexts > 1 else 1
            patient = np.repeat(np.arange(sets * n), m)
            is_hard = (rng.random(len(patient)) < hard_share(rng, m, many)[patient]).astype(int)
            common = rng.random((2, len(patient)))
            for system, side in enumerate(sides):
                for _ in range(runs):
                    # half of the draws are those of the other system, as findings are alike
                    u, v = np.where(
                        rng.random(common.shape) < 0.5, common, rng.random(common.shape)
                    )
                    off = spread * rng.standard_normal(sets).repeat(n)[patient]
                    wrong = (1 - rate - effect * system - off) / error[system]
                    is_told = u < told[system][is_hard]
                    is_right = v >= wrong * base[is_hard] * ability[patient]
                    side += [
                        np.bincount(patient, of, sets * n).reshape(sets, n)
                        for of in (is_told & is_right, is_told)
                    ]
        first, second = (np.stack(side, axis=-1) for side in sides)
        return first, second

    parts = tuple(Part(slice(2 * c, 2 * c + 2), mean, (1,)) for c in range(contexts * runs))
    return Population(draw, parts, 2 * contexts * runs)


def numbers(kind: str) -> Population:
    """The mean of a number for each report, with the same reports counted in both systems."""

    def draw(rng: np.random.Generator, sets: int, n: int, effect: float) -> tuple[Rows, Rows]:
        size = (sets, n)
        m = 1 + rng.poisson(0.9, size) if kind != "disasters" else np.ones(size)
        if kind == "rouge":  # of either system with other tails
            common = rng.beta(2, 4, size)
            a, b = (0.5 * common + 0.5 * rng.beta(*of, size) for of in ((1, 2), (4, 8)))
        elif kind == "rare":  # one report in a hundred
            a, b = (rng.random(size) < 1 - 0.99**m for _ in range(2))
            b = b | (rng.random(size) < effect)
            first, second = (np.stack([of, m], axis=-1).astype(float) for of in (a, b))
            return first, second
        else:  # the second is .02 better, but in 2 % of the patients so much worse that it is not
            a = rng.normal(0.5, 0.2, size)
            lost = rng.random(size) < 0.02
            b = a + np.where(lost, -0.98, 0.02 * (1 + 0.5 * rng.standard_normal(size)))
        return np.stack([a * m, m], axis=-1), np.stack([(b + effect) * m, m], axis=-1)

    return Population(draw, (Part(slice(0, 2), mean, (1,)),), 2)


def observations(
    average: Average,
    prevalence: np.ndarray,
    goal: float = 0.55,
    sensitivity: tuple[float, float] = (0.55, 0.8),
) -> Population:
    """F1 of labels of a cautious and a generous system, which have the same F1 of each label."""
    labels = len(prevalence)

    def draw(rng: np.random.Generator, sets: int, n: int, effect: float) -> tuple[Rows, Rows]:
        size = (sets, n, labels)
        truth = rng.random(size) < prevalence * rng.choice([0.4, 1.6], (sets, n, 1))
        common, sides = rng.random(size, dtype=np.float32), []
        for system, found in enumerate(sensitivity):
            f1 = goal + effect * system
            wrong = prevalence * (2 * found / f1 - found - 1) / (1 - prevalence)
            own = rng.random(size, dtype=np.float32)
            u = np.where(rng.random(size, dtype=np.float32) < 0.5, common, own)
            told = u < np.where(truth, found, wrong)
            parts = truth & told, told, truth
            if average == "micro":
                parts = [of.sum(axis=-1, keepdims=True) for of in parts]
            sides.append(np.concatenate(parts, axis=-1).astype(np.float32))
        return tuple(sides)

    width = 3 * (1 if average == "micro" else labels)
    score = partial(averaged, ratio="f1", average=average)
    return Population(draw, (Part(slice(0, width), score),), width)


def attributes() -> Population:
    """The mean share of sides, severities and courses that agree, with one count."""
    named, agree = np.array([0.5, 0.2, 0.1]), np.array([0.85, 0.6, 0.7])

    def draw(rng: np.random.Generator, sets: int, n: int, effect: float) -> tuple[Rows, Rows]:
        m = findings(rng, (sets * n,), "few")
        patient = np.repeat(np.arange(sets * n), m)
        ability = 2 * rng.beta(2, 2, sets * n)[patient][:, None]
        is_named = rng.random((len(patient), 3)) < named
        common, sides = rng.random((len(patient), 3)), []
        for system, affirmed in enumerate((0.8, 0.4)):
            counts = is_named & (rng.random(len(patient)) < affirmed)[:, None]
            u = np.where(rng.random(common.shape) < 0.5, common, rng.random(common.shape))
            right = u >= (1 - agree - effect * system) * ability
            columns = [*(counts & right).T, *counts.T]
            summed = [np.bincount(patient, of, sets * n).reshape(sets, n) for of in columns]
            sides.append(np.stack(summed, axis=-1))
        return tuple(sides)

    return Population(draw, (Part(slice(0, 6), attribute_share, (3, 4, 5)),), 6)


@cache
def words(score: Callable[[np.ndarray], np.ndarray], width: int, rows: Callable) -> Population:
    """A score of words of a terse and a verbose system, which have the same score in all patients
    together: the matches of the second are scaled."""

    def draw_scaled(
        scale: float, rng: np.random.Generator, sets: int, n: int, effect: float
    ) -> tuple[Rows, Rows]:
        length = np.maximum(np.round(rng.lognormal(3.5, 0.5, (sets, n))), 8)
        skill, sides = rng.normal(0, 0.25, (sets, n)), []
        for system, (ratio, factor) in enumerate(((0.75, 1.0), (1.15, scale))):
            own = np.maximum(np.round(length * ratio * rng.lognormal(-0.02, 0.2, (sets, n))), 6)
            level = np.exp(skill + rng.normal(0, 0.25, (sets, n))) * factor * (1 + effect * system)
            sides.append(rows(rng, own, length, level))
        return tuple(sides)

    low, high = 0.3, 1.8
    for _ in range(25):
        middle = (low + high) / 2
        first, second = draw_scaled(middle, np.random.default_rng(SEED), 1, 200_000, 0.0)
        is_better = score(second.sum(axis=1))[0] > score(first.sum(axis=1))[0]
        low, high = (low, middle) if is_better else (middle, high)
    return Population(partial(draw_scaled, middle), (Part(slice(0, width), score),), width)


def bleu_rows(
    rng: np.random.Generator, own: np.ndarray, length: np.ndarray, level: np.ndarray
) -> Rows:
    guess = np.stack([own - order for order in range(4)], axis=-1)
    share = np.clip(np.array([0.4, 0.25, 0.17, 0.11]) * level[..., None], 0, 0.95)
    hits = rng.binomial(guess.astype(int), share)
    return np.concatenate([hits, guess, own[..., None], length[..., None]], axis=-1).astype(float)


def meteor_rows(
    rng: np.random.Generator, own: np.ndarray, length: np.ndarray, level: np.ndarray
) -> Rows:
    rows = np.zeros((*own.shape, 23))
    function, wanted = (rng.binomial(of.astype(int), 0.4) for of in (own, length))
    rows[..., 0], rows[..., 1], rows[..., 2], rows[..., 3] = own, length, function, wanted
    most = np.minimum(own - function, length - wanted).astype(int)
    exact = rng.binomial(most, np.clip(0.5 * level, 0, 0.95))
    similar = rng.binomial(most - exact, 0.1)
    of_function = rng.binomial(np.minimum(function, wanted), np.clip(0.7 * level, 0, 0.95))
    rows[..., 4] = rows[..., 5] = exact
    rows[..., 6] = rows[..., 7] = of_function
    rows[..., 8] = rows[..., 9] = similar
    matched = exact + similar + of_function
    rows[..., 20] = np.maximum(rng.binomial(matched, 0.4), matched > 0)
    rows[..., 21] = rows[..., 22] = matched
    return rows


# Cells


class Cell(NamedTuple):
    """A population with a number of patients. ``effect``: of the second system, for the power;
    ``share``: the true value, if one system's interval is measured. ``kind``: the table."""

    name: str
    population: Callable[[], Population]
    n: int
    kind: str = "judged"
    effect: float = 0.0
    truth: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.kind}: {self.name}, {self.n}"


def cells() -> Iterator[Cell]:
    several, steep = np.geomspace(0.03, 0.35, 14), np.geomspace(0.01, 0.4, 8)
    words_of = {
        "BLEU-4, terse against verbose": partial(words, bleu, 10, bleu_rows),
        "METEOR, terse against verbose": partial(words, meteor, 23, meteor_rows),
    }
    judged: dict[str, Callable[[], Population]] = {
        "share .8 of affirmed .5 / .5": partial(shares, (0.5, 0.5), 0.8),
        "share .95 of affirmed .9 / .3": partial(shares, (0.9, 0.3), 0.95),
        "share .8 of affirmed .9 / .3, heavy tails": partial(shares, (0.9, 0.3), 0.8, "heavy"),
        "share .8 of affirmed .6 / .4, heavy tails": partial(shares, (0.6, 0.4), 0.8, "heavy"),
        "share .85 of affirmed .9 / .3, easy ones": partial(
            shares, (0.9, 0.3), 0.85, "few", easy=0.7
        ),
        "share .85 of affirmed .8 / .4, many have more errors": partial(
            shares, (0.8, 0.4), 0.85, "worse"
        ),
        "share .98 of affirmed .5 / .5": partial(shares, (0.5, 0.5), 0.98),
        "share .98 of affirmed .8 / .3": partial(shares, (0.8, 0.3), 0.98),
        "report rate .01, same reports": partial(numbers, "rare"),
        "ROUGE-L-like mean, same reports": partial(numbers, "rouge"),
        **words_of,
        "micro-F1, 14 labels": partial(observations, "micro", several),
        "weighted F1, 14 labels": partial(observations, "weighted", several),
        f"{MACRO}, 14 labels": partial(observations, "macro", several),
        "weighted F1, 8 labels, steep": partial(observations, "weighted", steep, 0.5, (0.5, 0.75)),
        f"{MACRO}, 8 labels, steep": partial(observations, "macro", steep, 0.5, (0.5, 0.75)),
        "F1 of one label of .1": partial(observations, "micro", np.array([0.1])),
        "attributes, affirmed .8 / .4": attributes,
        "mean of 4 contexts, .85 of affirmed .8 / .4": partial(
            shares, (0.8, 0.4), 0.85, contexts=4
        ),
        "mean of 4 contexts, .85 of affirmed .6 / .6": partial(
            shares, (0.6, 0.6), 0.85, contexts=4
        ),
        "3 runs, share .8 of affirmed .7 / .5": partial(shares, (0.7, 0.5), 0.8, runs=3),
    }
    for name, population in judged.items():
        for n in SIZES:
            yield Cell(name, population, n)
    reported: dict[str, Callable[[], Population]] = {
        "disasters in 2 % of the patients": partial(numbers, "disasters"),
        "3 runs of varying seeds (SD .01)": partial(shares, (0.7, 0.5), 0.8, runs=3, spread=0.01),
        "3 runs of varying seeds (SD .03)": partial(shares, (0.7, 0.5), 0.8, runs=3, spread=0.03),
    }
    for name, population in reported.items():
        for n in (40, 100, 300):
            yield Cell(name, population, n, "reported")
    powers = {
        "share .8 of affirmed .5 / .5": 0.12,
        "share .95 of affirmed .9 / .3": -0.08,
        "share .8 of affirmed .6 / .4, heavy tails": 0.12,
        "share .85 of affirmed .9 / .3, easy ones": -0.12,
        "share .98 of affirmed .8 / .3": -0.08,
        "ROUGE-L-like mean, same reports": 0.03,
        "METEOR, terse against verbose": 0.07,
        "micro-F1, 14 labels": 0.06,
        f"{MACRO}, 14 labels": 0.06,
        "attributes, affirmed .8 / .4": 0.1,
        "mean of 4 contexts, .85 of affirmed .8 / .4": -0.08,
    }
    for name, effect in powers.items():
        for n in (40, 100):
            yield Cell(f"{name}, {effect:+.2f}", judged[name], n, "power", effect)
    for rate in (0.02, 0.05, 0.5, 0.95, 0.98):
        for many in ("few", "heavy"):
            wrong = partial(one_share, rate, many)
            for n in SIZES:
                name = f"share {rate:.2f} of affirmed .6" + ", heavy tails" * (many == "heavy")
                yield Cell(name, wrong, n, "single", truth=rate)
    for goal in (0.55, 0.7):
        for n in SIZES:
            population = partial(observations, "micro", several, goal)
            yield Cell(f"micro-F1 {goal:.2f}", population, n, "single", truth=goal)
    for n in SIZES:
        yield Cell(
            "ROUGE-L-like mean .33",
            judged["ROUGE-L-like mean, same reports"],
            n,
            "single",
            truth=1 / 3,
        )


def one_share(rate: float, many: str) -> Population:
    """The share of findings of one system; patients differ, more than by chance."""

    def draw(rng: np.random.Generator, sets: int, n: int, effect: float) -> tuple[Rows, Rows]:
        y = rng.binomial(findings(rng, (sets, n), many), 0.6)
        x = rng.binomial(y, rng.beta(4 * rate, 4 * (1 - rate), (sets, n)))
        rows = np.stack([x, y], axis=-1).astype(float)
        return rows, rows

    return Population(draw, (Part(slice(0, 2), mean, (1,)),), 2)


# Measuring


def measured(cell: Cell, data_sets: int) -> dict:
    """Return how many of the data sets are printed, and how often each method errs."""
    rng = np.random.default_rng([SEED, zlib.crc32(cell.key.encode())])
    population = cell.population()
    batch = max(min(500, data_sets, MOST // (SPLITS * population.width)), 20)
    found: dict[str, int] = {}
    for start in range(0, data_sets, batch):
        sets = min(batch, data_sets - start)
        rows = population.draw(rng, sets, cell.n, cell.effect)
        judge = single if cell.kind == "single" else compared
        for name, hits in judge(cell, population, rows, rng).items():
            found[name] = found.get(name, 0) + int(hits.sum())
    return {"cell": cell.key, "data_sets": data_sets, **found}


def sums_of(weights: np.ndarray, rows: Rows) -> np.ndarray:
    """Return the weighted sums ``[weights, data sets, k]``; of few columns in double precision, as
    their scores can be equal."""
    sets, n, k = rows.shape
    flat = np.ascontiguousarray(rows.transpose(1, 0, 2), dtype=np.float32).reshape(n, sets * k)
    sums = (weights.astype(np.float32) @ flat).reshape(-1, sets, k)
    return sums if k > 10 else sums.astype(float)


def compared(
    cell: Cell, population: Population, rows: tuple[Rows, Rows], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    n = cell.n
    in_half = rng.integers(0, 2, (SPLITS, n))
    drawn = rng.multinomial(n, np.full(n, 1 / n), SPLITS)
    totals = [of.sum(axis=1, dtype=float) for of in rows]
    half = [sums_of(in_half, of) for of in rows]
    others = [(total - of).astype(of.dtype) for of, total in zip(half, totals, strict=True)]
    swap = half[1] - half[0]
    swapped = (totals[0] + swap).astype(swap.dtype), (totals[1] - swap).astype(swap.dtype)
    boot = [sums_of(drawn, of) for of in rows]
    gaps, before, after, least = [], [], [], []
    with np.errstate(all="ignore"):
        for part in population.parts:
            values, one, other, of_swaps, of_boot = (
                [part.score(side[..., part.columns]).astype(float) for side in sides]
                for sides in (totals, half, others, swapped, boot)
            )
            drawn_halves = [np.concatenate(of) for of in zip(one, other, strict=True)]
            counts = [
                of[..., part.columns][..., part.counted].sum(axis=-1)
                if part.counted
                else np.ones(of.shape[:2])
                for of in rows
            ]
            sizes = [of.sum(axis=1) for of in counts]
            gaps.append(half_differences(values, drawn_halves, sizes))
            before.append(of_swaps[1] - of_swaps[0])
            after.append(of_boot[1] - of_boot[0])
            least.append(((counts[0] > 0) & (counts[1] > 0)).sum(axis=1))
        drawn_gaps, exchanged, samples = (np.mean(of, axis=0) for of in (gaps, before, after))
        value = np.mean(
            [
                part.score(totals[1][..., part.columns]) - part.score(totals[0][..., part.columns])
                for part in population.parts
            ],
            axis=0,
        )
    undefined = np.isnan(drawn_gaps).mean(axis=0)
    is_printed = (
        ~np.isnan(value) & (np.min(least, axis=0) >= LEAST_UNITS) & (undefined <= MOST_UNDEFINED)
    )
    if not population.parts[0].counted:
        drawn_gaps = without_bias(value, drawn_gaps)
    low, high, p = interval_and_p(drawn_gaps, 1e-9)
    as_large = np.isnan(exchanged) | (np.abs(exchanged) >= np.abs(value) - 1e-9)
    old_p = (1 + as_large.sum(axis=0)) / (1 + SPLITS)
    old_low, old_high = percentiles(samples)
    results = {
        "old_05": old_p <= 0.05,
        "new_05": p <= 0.05,
        "old_01": old_p <= 0.01,
        "new_01": p <= 0.01,
        "old_covers": (old_low <= 0) & (old_high >= 0),
        "new_covers": (low <= 0) & (high >= 0),
        "old_above": old_low > 0,
        "old_below": old_high < 0,
        "new_above": low > 0,
        "new_below": high < 0,
    }
    return {"printed": is_printed, **{name: of & is_printed for name, of in results.items()}}


def single(
    cell: Cell, population: Population, rows: tuple[Rows, Rows], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Intervals of the second system."""
    n, own, [part] = cell.n, rows[1], population.parts
    truth = cell.truth
    counts = own[..., part.counted].sum(axis=-1) if part.counted else np.ones(own.shape[:2])
    with np.errstate(all="ignore"):
        total = own.sum(axis=1, dtype=float)
        half = sums_of(rng.integers(0, 2, (SPLITS, n)), own)
        halves = np.concatenate([part.score(half), part.score(total - half)])
        samples = part.score(sums_of(rng.multinomial(n, np.full(n, 1 / n), SPLITS), own))
        value = part.score(total)
        low, high = share_interval(value, variance(halves), as_many(counts.T))
        old_low, old_high = percentiles(samples)
    is_printed = (
        ~np.isnan(value)
        & ((counts > 0).sum(axis=1) >= LEAST_UNITS)
        & (np.isnan(halves).mean(axis=0) <= MOST_UNDEFINED)
    )
    results = {
        "old_covers": (old_low <= truth) & (old_high >= truth),
        "new_covers": (low <= truth) & (high >= truth),
    }
    return {"printed": is_printed, **{name: of & is_printed for name, of in results.items()}}


def percentiles(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the 2.5 and 97.5 percentiles of the defined samples ``[samples, ...]``."""
    ordered = np.sort(samples, axis=0)  # undefined ones last
    last = np.maximum((~np.isnan(samples)).sum(axis=0) - 1, 0)
    ends = []
    for level in (0.025, 0.975):
        place = level * last
        below = np.floor(place).astype(int)
        one, other = (
            np.take_along_axis(ordered, np.minimum(of, last)[None], axis=0)[0]
            for of in (below, below + 1)
        )
        ends.append(one + (place - below) * (other - one))
    return ends[0], ends[1]


# The table


def share(found: dict, name: str) -> str:
    return f"{found[name] / found['printed']:.3f}" if found["printed"] >= 100 else "–"


def summary(lines: list[dict]) -> list[str]:
    """Return the tables as lines of Markdown."""
    known = {line["cell"]: line for line in lines}
    for line in known.values():
        for name in ("old", "new"):
            sides = [line.get(f"{name}_{side}", 0) for side in ("above", "below")]
            line[f"{name}_side"] = max(sides)
    pairs = {
        "false positives at .05": ("old_05", "new_05"),
        "at .01": ("old_01", "new_01"),
        "covers": ("old_covers", "new_covers"),
        "one side": ("old_side", "new_side"),
    }
    titles = {
        "judged": ("Two systems that are equally good", list(pairs)),
        "reported": ("What no resampling of patients mends", list(pairs)),
        "power": ("Power: p at most .05 where the second system differs", ["p at most .05"]),
        "single": ("The interval of one system covers", ["covers"]),
    }
    text = []
    for kind, (title, columns) in titles.items():
        text += [f"## {title}", ""]
        heads = [f"{name}: {which}" for name in columns for which in ("before", "now")]
        rows = []
        for cell in cells():
            if cell.kind != kind or cell.key not in known:
                continue
            found = known[cell.key]
            names = [pairs.get(column, ("old_05", "new_05")) for column in columns]
            printed = f"{found['printed'] / found['data_sets']:.3f}"
            figures = [share(found, name) for both in names for name in both]
            rows.append([cell.name, str(cell.n), printed, *figures])
        text += table(["Population", "patients", "printed", *heads], rows)
        if kind == "judged":
            for words, left_out in (("", "none"), (f" without {MACRO}", MACRO)):
                text += [f"Worst of these{words}: {worst(known, left_out)}", ""]
    return text


def worst(known: dict[str, dict], left_out: str) -> str:
    """Return the worst figures of the judged cells."""
    judged = [cell for cell in cells() if cell.kind == "judged" and left_out not in cell.name]
    of = [known[cell.key] for cell in judged if cell.key in known]
    of = [found for found in of if found["printed"] >= 100]
    parts = []
    for which, name in (("before", "old"), ("now", "new")):
        most = [max(found[f"{name}_{p}"] / found["printed"] for found in of) for p in ("05", "01")]
        least = min(found[f"{name}_covers"] / found["printed"] for found in of)
        side = max(found[f"{name}_side"] / found["printed"] for found in of)
        parts.append(
            f"{which}, false positives {most[0]:.3f} at .05 and {most[1]:.3f} at .01, "
            f"coverage {least:.3f}, beyond one end {side:.3f}"
        )
    return "; ".join(parts) + "."


def main() -> None:
    options = options_of(
        __doc__,
        cells={"type": Path, "help": "file of the measured cells, JSON lines"},
        only={"default": "", "help": "measure only cells whose name holds this"},
        data_sets={"default": 10_000, "type": int, "help": "of each cell"},
        table={"default": None, "type": Path, "help": "write the cells as Markdown to this file"},
    )
    lines = options.cells.read_text().splitlines() if options.cells.exists() else []
    known = list(map(json.loads, lines))
    if options.table:
        about = (
            f"`python bench/intervals.py`, seed {SEED}, {SPLITS:,} splits, "
            f"{known[0]['data_sets']:,} data sets for each cell. See the docstring."
        )
        text = "\n".join(["# Test and intervals", "", about, "", *summary(known)])
        options.table.write_text(text.rstrip() + "\n")
        return
    done = {line["cell"] for line in known}
    to_do = [cell for cell in cells() if options.only in cell.key and cell.key not in done]
    started = time.monotonic()
    for number, cell in enumerate(to_do, 1):
        found = measured(cell, options.data_sets)
        with options.cells.open("a") as file:
            print(json.dumps(found), file=file, flush=True)
            os.fsync(file.fileno())
        each = (time.monotonic() - started) / number
        left = each * (len(to_do) - number) / 60
        print(
            f"{number} of {len(to_do)} cells, {each:.1f} s each, {left:.0f} min left: {found}",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    main()
