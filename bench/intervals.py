"""How often do p values and intervals err? Made patients, two systems that are equally good.

``OPENBLAS_NUM_THREADS=1 python bench/intervals.py CELLS`` draws data sets of each population of
``intervals.yaml`` (as ``pacer compare`` would sum them up by patient), tests them and appends a
line to the file CELLS for each cell: a population with a number of patients. Cells that are in the
file are skipped, so a stopped run goes on. At the end it prints the tables.

What is measured are random halves of the patients, by the functions of
``pacer.statistics.halves``. Only data sets for which they print p are counted. False
positives: p at most .05 or .01 where there is no difference. Covers: the interval holds the true
value. One side: the interval lies wholly above 0, or below, whichever is more frequent. With 10,000
data sets, a share of .05 has a standard error of .002.
"""

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring import options_of, table

from pacer.config.strict import read_mapping
from pacer.core.io import read_jsonl
from pacer.metrics.clinical import averaged
from pacer.metrics.conventions import Average
from pacer.metrics.findings import attribute_share
from pacer.metrics.language import bleu, meteor
from pacer.metrics.score_kinds import mean
from pacer.statistics.halves import (
    LEAST_UNITS,
    MOST_UNDEFINED,
    effective_units,
    half_differences,
    interval_and_p,
    share_interval,
    variance,
    without_bias,
)

SEED, SPLITS, SIZES = 20261129, 1000, (10, 20, 40, 100, 300)
#: Numbers of patients, by table.
PATIENTS = {"judged": SIZES, "reported": SIZES[2:], "power": SIZES[2:4], "single": SIZES}
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


def drawn_alike(rng: np.random.Generator, common: np.ndarray) -> np.ndarray:
    """Draw for one system; half of the draws are those of the other, as findings are alike."""
    return np.where(rng.random(common.shape) < 0.5, common, rng.random(common.shape))


def shares(
    affirmed: Sequence[float],
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
                    u, v = drawn_alike(rng, common)
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
    return Population(draw, parts)


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

    return Population(draw, (Part(slice(0, 2), mean, (1,)),))


def observations(
    average: Average,
    prevalences: tuple[float, float, int],
    goal: float = 0.55,
    sensitivity: Sequence[float] = (0.55, 0.8),
) -> Population:
    """F1 of labels of a cautious and a generous system, which have the same F1 of each label."""
    prevalence = np.geomspace(*prevalences)
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
    return Population(draw, (Part(slice(0, width), score),))


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
            u = drawn_alike(rng, common)
            right = u >= (1 - agree - effect * system) * ability
            columns = [*(counts & right).T, *counts.T]
            summed = [np.bincount(patient, of, sets * n).reshape(sets, n) for of in columns]
            sides.append(np.stack(summed, axis=-1))
        return tuple(sides)

    return Population(draw, (Part(slice(0, 6), attribute_share, (3, 4, 5)),))


@cache
def words(name: str) -> Population:
    """A score of words of a terse and a verbose system, which have the same score in all patients
    together: the matches of the second are scaled."""
    score, width, rows = (bleu, 10, bleu_rows) if name == "bleu" else (meteor, 23, meteor_rows)

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
    return Population(partial(draw_scaled, middle), (Part(slice(0, width), score),))


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


def one_share(rate: float, many: str = "few") -> Population:
    """The share of findings of one system; patients differ, more than by chance."""

    def draw(rng: np.random.Generator, sets: int, n: int, effect: float) -> tuple[Rows, Rows]:
        y = rng.binomial(findings(rng, (sets, n), many), 0.6)
        x = rng.binomial(y, rng.beta(4 * rate, 4 * (1 - rate), (sets, n)))
        rows = np.stack([x, y], axis=-1).astype(float)
        return rows, rows

    return Population(draw, (Part(slice(0, 2), mean, (1,)),))


POPULATIONS = {
    made.__name__: made for made in (shares, numbers, observations, attributes, words, one_share)
}


# Measuring


class Cell(NamedTuple):
    """A population with a number of patients. ``kind``: the table. ``of``: what makes the
    population. ``effect``: of the second system, for the power; ``truth``: the true value, if one
    system's interval is measured."""

    kind: str
    name: str
    n: int
    of: Mapping[str, Any]
    effect: float = 0.0
    truth: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.kind}: {self.name}, {self.n}"


def cells() -> Iterator[Cell]:
    known = read_mapping(Path(__file__).with_suffix(".yaml"))
    for kind, sizes in PATIENTS.items():
        for name, of in known[kind].items():
            for n in sizes:
                if kind == "power":
                    yield Cell(kind, f"{name}, {of:+.2f}", n, known["judged"][name], effect=of)
                else:
                    yield Cell(kind, name, n, of, truth=of.get("truth", 0.0))


def measured(cell: Cell, data_sets: int) -> dict:
    """Return how many of the data sets are printed, and how often p and interval err."""
    rng = np.random.default_rng([SEED, zlib.crc32(cell.key.encode())])
    settings = {key: value for key, value in cell.of.items() if key not in ("of", "truth")}
    population = POPULATIONS[cell.of["of"]](**settings)
    width = population.parts[-1].columns.stop
    batch = max(min(500, data_sets, MOST // (SPLITS * width)), 20)
    judge = single if cell.kind == "single" else compared
    found = Counter[str]()
    for start in range(0, data_sets, batch):
        sets = min(batch, data_sets - start)
        rows = population.draw(rng, sets, cell.n, cell.effect)
        with np.errstate(all="ignore"):
            is_printed, p, low, high = judge(population.parts, rows, rng)
        errors = {
            "printed": True,
            "05": p <= 0.05,
            "01": p <= 0.01,
            "covers": (low <= cell.truth) & (high >= cell.truth),
            "above": low > cell.truth,
            "below": high < cell.truth,
        }
        for error, hits in errors.items():
            found[error] += int((hits & is_printed).sum())
    return {"cell": cell.key, "data_sets": data_sets, **found}


def sums_of(weights: np.ndarray, rows: Rows) -> np.ndarray:
    """Return the weighted sums ``[weights, data sets, k]``; of few columns in double precision, as
    their scores can be equal."""
    sets, n, k = rows.shape
    flat = np.ascontiguousarray(rows.transpose(1, 0, 2), dtype=np.float32).reshape(n, sets * k)
    sums = (weights.astype(np.float32) @ flat).reshape(-1, sets, k)
    return sums if k > 10 else sums.astype(float)


def counts_of(part: Part, rows: Rows) -> np.ndarray:
    """Return how many findings, or reports, of each patient count ``[data sets, patients]``."""
    counted = rows[..., part.columns][..., part.counted]
    return counted.sum(axis=-1) if part.counted else np.ones(rows.shape[:2])


def prints(value: np.ndarray, halves: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return in which data sets PACER prints an interval."""
    undefined = np.isnan(halves).mean(axis=0)
    return ~np.isnan(value) & (units >= LEAST_UNITS) & (undefined <= MOST_UNDEFINED)


#: In which data sets p or an interval is printed; p and the ends of the interval.
Judged = tuple[np.ndarray, Any, np.ndarray, np.ndarray]


def compared(parts: Sequence[Part], rows: tuple[Rows, Rows], rng: np.random.Generator) -> Judged:
    """Compare both systems."""
    n = rows[0].shape[1]
    in_half = rng.integers(0, 2, (SPLITS, n))
    totals = [of.sum(axis=1, dtype=float) for of in rows]
    half = [sums_of(in_half, of) for of in rows]
    other = [(total - of).astype(of.dtype) for of, total in zip(half, totals, strict=True)]

    def scores(part: Part, sides: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [part.score(side[..., part.columns]).astype(float) for side in sides]

    values, gaps, units = [], [], []
    for part in parts:
        first, second = scores(part, totals)
        values.append(second - first)
        both = zip(scores(part, half), scores(part, other), strict=True)
        counts = [counts_of(part, of) for of in rows]
        sizes = [of.sum(axis=1) for of in counts]
        halves = [np.concatenate(of) for of in both]
        gaps.append(half_differences([first, second], halves, sizes))
        units.append(((counts[0] > 0) & (counts[1] > 0)).sum(axis=1))
    value, halved = np.mean(values, axis=0), np.mean(gaps, axis=0)
    is_printed = prints(value, halved, np.min(units, axis=0))
    if not parts[0].counted:
        halved = without_bias(value, halved)
    low, high, p = interval_and_p(halved, 1e-9)
    return is_printed, p, low, high


def single(parts: Sequence[Part], rows: tuple[Rows, Rows], rng: np.random.Generator) -> Judged:
    """Give the second system intervals."""
    [part], own = parts, rows[1]
    n, counts = own.shape[1], counts_of(part, own)
    total = own.sum(axis=1, dtype=float)
    half = sums_of(rng.integers(0, 2, (SPLITS, n)), own)
    halves = np.concatenate([part.score(half), part.score(total - half)])
    value = part.score(total)
    low, high = share_interval(value, variance(halves), effective_units(counts.T))
    return prints(value, halves, (counts > 0).sum(axis=1)), np.nan, low, high


# The table

COLUMNS = {"false positives at .05": "05", "at .01": "01", "covers": "covers", "one side": "side"}
#: By table, its title and columns.
TABLES = {
    "judged": ("Two systems that are equally good", COLUMNS),
    "reported": ("What no resampling of patients mends", COLUMNS),
    "power": ("Power: p at most .05 where the second system differs", {"p at most .05": "05"}),
    "single": ("The interval of one system covers", {"covers": "covers"}),
}


def share(found: dict, error: str) -> float:
    """Return how often there is an error where something is printed."""
    errors = ("above", "below") if error == "side" else (error,)
    return max(found[one] for one in errors) / found["printed"]


def summary(known: dict[str, dict]) -> list[str]:
    """Return the tables as lines of Markdown."""
    text = []
    for kind, (title, columns) in TABLES.items():
        rows = []
        for cell in cells():
            if cell.kind == kind and cell.key in known:
                found = known[cell.key]
                figures = [
                    f"{share(found, error):.3f}" if found["printed"] >= 100 else "–"
                    for error in columns.values()
                ]
                printed = f"{found['printed'] / found['data_sets']:.3f}"
                rows.append([cell.name, str(cell.n), printed, *figures])
        text += [f"## {title}", "", *table(["Population", "patients", "printed", *columns], rows)]
        if kind == "judged":
            for words, left_out in (("", "none"), (f" without {MACRO}", MACRO)):
                text += [f"Worst of these{words}: {worst(known, left_out)}", ""]
    return text


def worst(known: dict[str, dict], left_out: str) -> str:
    """Return the worst figures of the judged cells."""
    judged = [found for key, found in known.items() if key.startswith("judged: ")]
    of = [one for one in judged if left_out not in one["cell"] and one["printed"] >= 100]
    most = [max(share(one, error) for one in of) for error in ("05", "01", "side")]
    least = min(share(one, "covers") for one in of)
    return (
        f"false positives {most[0]:.3f} at .05 and {most[1]:.3f} at .01, coverage {least:.3f}, "
        f"beyond one end {most[2]:.3f}."
    )


def main() -> None:
    file = {"type": Path, "help": "file of the measured cells, JSON lines"}
    data_sets = {"default": 10_000, "type": int, "help": "of each cell, from 100 on"}
    options = options_of(__doc__, cells=file, data_sets=data_sets)
    lines = read_jsonl(options.cells) if options.cells.exists() else []
    known = {line["cell"]: line for line in lines}
    for cell in cells():
        if cell.key not in known:
            known[cell.key] = measured(cell, options.data_sets)
            with options.cells.open("a") as out:
                out.write(json.dumps(known[cell.key]) + "\n")
    about = (
        f"`python bench/intervals.py`, seed {SEED}, {SPLITS:,} splits, {options.data_sets:,} data "
        "sets for each cell. See the docstring."
    )
    print("\n".join(["# Test and intervals", "", about, "", *summary(known)]).rstrip())


if __name__ == "__main__":
    main()
