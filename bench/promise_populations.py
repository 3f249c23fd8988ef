"""How often is a promise broken? Simulated patients, whose true risk is known (docs/method.md).

    python bench/promise_populations.py      writes bench/results/promise_populations.md; a quarter of an hour

A calibration draws patients, tests all thresholds and takes the lowest that passes. It breaks its promise if the true
risk at that threshold is above the limit. Most populations have it just above at some threshold, which is the hardest
case. The seeds are the numbers of patients.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from pacer.decoding.promise import GRID, passing, risk_test

SIZES, CONFIDENCES, CALIBRATIONS = (60, 80, 100, 150, 200, 300, 400), (0.9, 0.95, 0.99), 2000
RESULTS = Path(__file__).parent / "results"
#: Share of a patient's findings that are stated at each threshold.
STATED = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
#: Wrong findings of a patient who has many.
MANY = 15

#: Errors and stated findings [patients] at each threshold.
Patients = list[tuple[np.ndarray, np.ndarray]]
#: Findings of each patient, and their rate of error by risk.
Law = Callable[[np.random.Generator, int], tuple[np.ndarray, Callable[[float], np.ndarray]]]


class Population(NamedTuple):
    """``risks``: true risk at each threshold of the grid, strictest first."""

    text: str
    draw: Callable[[np.random.Generator, int], Patients]
    risks: Sequence[float]
    limit: float = 0.2


def thinned(text: str, law: Law, risks: Sequence[float], stated: Sequence[float] = STATED) -> Population:
    """Return a population of which each threshold states a share of the findings, and some of these are wrong."""

    def draw(random: np.random.Generator, patients: int) -> Patients:
        findings, rates = law(random, patients)
        counts = [random.binomial(findings, share) for share in stated]
        return [(random.binomial(count, rates(risk)), count) for count, risk in zip(counts, risks, strict=True)]

    return Population(text, draw, risks)


def spread_errors(random: np.random.Generator, patients: int) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """Few or many findings; each patient has a rate of error, whose mean is the risk."""
    findings = (1 + random.poisson(2, patients)) * np.where(random.random(patients) < 0.1, 3, 1)
    return findings, lambda risk: random.beta(4 * risk, 4 * (1 - risk), patients)


def errors_of_few(random: np.random.Generator, patients: int) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """Four in ten patients have no finding. A few have twice as many as the others and nine of ten wrong; all others a
    quarter of the risk. The share of the few is such that the risk over all findings is right."""
    limit = 0.2
    findings, few = random.geometric(0.4, patients) - 1, 0.75 * limit / (1.8 - 1.25 * limit)
    hard, rest = random.random(patients) < few, (limit * (1 + few) - 1.8 * few) / (1 - few)
    return findings * np.where(hard, 2, 1), lambda risk: np.where(hard, 0.9, rest) * risk / limit


def errors_of_whole(random: np.random.Generator, patients: int) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """Patients have one or several studies, and most have all of their findings right or all wrong."""
    return random.poisson(1.2 * random.geometric(0.35, patients)), whole(random, patients)


def errors_of_sick(random: np.random.Generator, patients: int) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """The rate of error grows with the findings (at most one); a random finding's patient has five on average."""
    findings = 1 + random.poisson(random.exponential(2, patients))
    return findings, lambda risk: np.minimum(findings * risk / 5, 1)


def heavy_tail(random: np.random.Generator, patients: int) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """Log-normal numbers of findings, most of a patient's all right or all wrong."""
    return np.ceil(random.lognormal(0.3, 1.3, patients)).astype(int), whole(random, patients)


def whole(random: np.random.Generator, patients: int) -> Callable[[float], np.ndarray]:
    return lambda risk: random.beta(risk, 1 - risk, patients)


def many_wrong(
    text: str, share: float, findings: Callable[[np.random.Generator, float, int], np.ndarray]
) -> Population:
    """Return a population of which a share has only wrong findings, :data:`MANY`, and the others none; the risk is just
    above .1. ``findings`` draws those of the others, with a given mean."""
    limit, mean = 0.1, share * MANY * 0.9 / 0.1 / (1 - share) - 0.02

    def draw(random: np.random.Generator, patients: int) -> Patients:
        wrong = random.random(patients) < share
        stated = np.where(wrong, MANY, findings(random, mean, patients)).astype(int)
        return [(np.where(wrong, MANY, 0), stated)] * len(GRID)

    return Population(text, draw, [share * MANY / (share * MANY + (1 - share) * mean)] * len(GRID), limit)


def varied(random: np.random.Generator, mean: float, patients: int) -> np.ndarray:
    return random.geometric(1 / (1 + mean), patients) - 1


def equal(random: np.random.Generator, mean: float, patients: int) -> np.ndarray:
    return np.floor(mean + random.random(patients))


def counted(text: str, dataset: str, context: str, place: int) -> Population:
    """Return the patients of a file of bench/promise.py, with the limit just below the rate at a threshold."""
    rows = pl.read_parquet(RESULTS / "promise" / f"{dataset}.parquet").filter(context=context)
    sums = [rows.filter(threshold=at).sort("patient").select("errors", "findings").to_numpy() for at in GRID]
    risks = [float(one[:, 0].sum() / one[:, 1].sum()) for one in sums]

    def draw(random: np.random.Generator, patients: int) -> Patients:
        drawn = random.integers(len(sums[0]), size=patients)
        return [(one[drawn, 0].astype(int), one[drawn, 1].astype(int)) for one in sums]

    return Population(text, draw, risks, risks[place] - 1e-4)


ABOVE = (0.2001,) * len(GRID)
#: The populations for which a promise has to hold.
POPULATIONS = {
    "A": thinned(
        "error rates vary between patients; the fourth threshold's is just above the limit",
        spread_errors,
        (0.05, 0.1, 0.15, 0.205, 0.3, 0.4),
    ),
    "B": thinned(
        "the same, but those of all thresholds are above", spread_errors, (0.2001, 0.21, 0.25, 0.3, 0.35, 0.4)
    ),
    "C": thinned(
        "four in ten patients have no finding, one in ten has most errors; the second's is just above",
        errors_of_few,
        (0.1, 0.2001, 0.21, 0.215, 0.22, 0.222),
    ),
    "D": thinned(
        "several studies per patient, most with all findings right or all wrong; the third's is just above",
        errors_of_whole,
        (0.12, 0.15, 0.2001, 0.21, 0.22, 0.25),
    ),
    "E": counted(
        "the phantom's patients (dataset 1, `mw`), drawn with replacement; the third's is just above", "1", "mw", 2
    ),
    "F": thinned(
        "patients with more findings have higher rates of error; the third's is just above",
        errors_of_sick,
        (0.1, 0.15, 0.2001, 0.21, 0.22, 0.25),
    ),
    "G": thinned(
        "as A, but strict thresholds state little, so that some are skipped; all are just above",
        spread_errors,
        ABOVE,
        (0.05, 0.1, 0.2, 0.4, 0.7, 1.0),
    ),
    "H": thinned(
        "heavy-tailed findings per patient, most with all findings right or all wrong; all are just above",
        heavy_tail,
        ABOVE,
    ),
    "I": many_wrong(
        "15 wrong findings in 2.4 % of the patients, else none; limit .1, all are just above", 0.024, varied
    ),
}
#: Populations that break it: a sample without one of the few looks like one of patients without errors.
BREAKING = {
    "J": many_wrong("as I, but all others state three or four findings", 0.024, equal),
    "K": many_wrong("as J, in 1.1 % of the patients; the others state one or two", 0.0111, equal),
}


def broken(population: Population, patients: int, calibrations: int = CALIBRATIONS) -> Iterator[float]:
    """Yield the share of calibrations that break the promise, for each of :data:`CONFIDENCES`."""
    random, lowest = np.random.default_rng(patients), []
    for _ in range(calibrations):
        drawn = zip(GRID, population.draw(random, patients), strict=True)
        tests = {"false_present": [risk_test(*counts, population.limit, 0.1, at) for at, counts in drawn]}
        passed = [passing(tests, 1 - confidence)["false_present"] for confidence in CONFIDENCES]
        lowest.append([population.risks[GRID.index(of_level[-1])] if of_level else 0.0 for of_level in passed])
    yield from (np.array(lowest) > population.limit).mean(axis=0)


def main() -> None:
    columns = [f"{confidence:.0%}, {patients}" for confidence in CONFIDENCES for patients in SIZES]
    lines = [f"| confidence, patients | {' | '.join(columns)} |", "|:---|" + "---:|" * len(columns)]
    for name, population in (POPULATIONS | BREAKING).items():
        by_size = zip(*(broken(population, patients) for patients in SIZES), strict=True)
        figures = [f"{share:.3f}".removeprefix("0") for of_level in by_size for share in of_level]
        lines.append(f"| {name}: {population.text} | {' | '.join(figures)} |")
        print(lines[-1], flush=True)
    (RESULTS / "promise_populations.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
