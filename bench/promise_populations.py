"""How often is a promise broken? Simulated patients, whose true risk is known (docs/method.md).

    python bench/promise_populations.py      writes bench/results/promise_populations.md; a quarter
    of an hour

A calibration draws patients, tests all thresholds and takes the lowest that passes. It breaks its
promise if the true risk at that threshold is above the limit. Most populations have it just above
at some threshold, which is the hardest case. The seeds are the numbers of patients.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from measuring import table
from ruamel.yaml import YAML

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


def thinned(
    text: str, law: str, risks: Sequence[float], stated: Sequence[float] = STATED
) -> Population:
    """Return a population of which each threshold states a share of the findings, and some of these
    are wrong."""

    def draw(random: np.random.Generator, patients: int) -> Patients:
        findings, rates = LAWS[law](random, patients)
        counts = [random.binomial(findings, share) for share in stated]
        return [
            (random.binomial(count, rates(risk)), count)
            for count, risk in zip(counts, risks, strict=True)
        ]

    return Population(text, draw, risks)


def spread_errors(
    random: np.random.Generator, patients: int
) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """Few or many findings; each patient has a rate of error, whose mean is the risk."""
    findings = (1 + random.poisson(2, patients)) * np.where(random.random(patients) < 0.1, 3, 1)
    return findings, lambda risk: random.beta(4 * risk, 4 * (1 - risk), patients)


def errors_of_few(
    random: np.random.Generator, patients: int
) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """Four in ten patients have no finding. A few have twice as many as the others and nine of ten
    wrong; all others a quarter of the risk. The share of the few is such that the risk over all
    findings is right."""
    limit = 0.2
    findings, few = random.geometric(0.4, patients) - 1, 0.75 * limit / (1.8 - 1.25 * limit)
    hard, rest = random.random(patients) < few, (limit * (1 + few) - 1.8 * few) / (1 - few)
    return findings * np.where(hard, 2, 1), lambda risk: np.where(hard, 0.9, rest) * risk / limit


def errors_of_whole(
    random: np.random.Generator, patients: int
) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """Patients have one or several studies, and most have all of their findings right or all
    wrong."""
    return random.poisson(1.2 * random.geometric(0.35, patients)), whole(random, patients)


def errors_of_sick(
    random: np.random.Generator, patients: int
) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """The rate of error grows with the findings (at most one); a random finding's patient has five
    on average."""
    findings = 1 + random.poisson(random.exponential(2, patients))
    return findings, lambda risk: np.minimum(findings * risk / 5, 1)


def heavy_tail(
    random: np.random.Generator, patients: int
) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
    """Log-normal numbers of findings, most of a patient's all right or all wrong."""
    return np.ceil(random.lognormal(0.3, 1.3, patients)).astype(int), whole(random, patients)


def whole(random: np.random.Generator, patients: int) -> Callable[[float], np.ndarray]:
    return lambda risk: random.beta(risk, 1 - risk, patients)


def many_wrong(text: str, share: float, findings: str) -> Population:
    """Return a population of which a share has only wrong findings, :data:`MANY`, and the others
    none; the risk is just above .1. ``findings`` draws those of the others, with a given mean."""
    limit, mean = 0.1, share * MANY * 0.9 / 0.1 / (1 - share) - 0.02

    def draw(random: np.random.Generator, patients: int) -> Patients:
        wrong = random.random(patients) < share
        stated = np.where(wrong, MANY, OTHERS[findings](random, mean, patients)).astype(int)
        return [(np.where(wrong, MANY, 0), stated)] * len(GRID)

    return Population(
        text, draw, [share * MANY / (share * MANY + (1 - share) * mean)] * len(GRID), limit
    )


def varied(random: np.random.Generator, mean: float, patients: int) -> np.ndarray:
    return random.geometric(1 / (1 + mean), patients) - 1


def equal(random: np.random.Generator, mean: float, patients: int) -> np.ndarray:
    return np.floor(mean + random.random(patients))


def counted(text: str, dataset: str, context: str, place: int) -> Population:
    """Return the patients of a file of bench/promise.py, with the limit just below the rate at a
    threshold."""
    rows = pl.read_parquet(RESULTS / "promise" / f"{dataset}.parquet").filter(context=context)
    sums = [
        rows.filter(threshold=at).sort("patient").select("errors", "findings").to_numpy()
        for at in GRID
    ]
    risks = [float(one[:, 0].sum() / one[:, 1].sum()) for one in sums]

    def draw(random: np.random.Generator, patients: int) -> Patients:
        drawn = random.integers(len(sums[0]), size=patients)
        return [(one[drawn, 0].astype(int), one[drawn, 1].astype(int)) for one in sums]

    return Population(text, draw, risks, risks[place] - 1e-4)


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (spread_errors, errors_of_few, errors_of_whole, errors_of_sick, heavy_tail)
}
OTHERS = {"varied": varied, "equal": equal}
#: How a population is made, by a key that it has.
MAKERS: dict[str, Callable[..., Population]] = {
    "law": thinned,
    "dataset": counted,
    "share": many_wrong,
}
#: The populations for which a promise has to hold, and those that break it.
POPULATIONS, BREAKING = (
    {
        name: next(make for key, make in MAKERS.items() if key in of)(**of)
        for name, of in named.items()
    }
    for named in YAML(typ="safe").load(Path(__file__).with_name("populations.yaml")).values()
)


def broken(
    population: Population, patients: int, calibrations: int = CALIBRATIONS
) -> Iterator[float]:
    """Yield the share of calibrations that break the promise, for each of :data:`CONFIDENCES`."""
    random, lowest = np.random.default_rng(patients), []
    for _ in range(calibrations):
        drawn = zip(GRID, population.draw(random, patients), strict=True)
        tests = {
            "false_present": [risk_test(*counts, population.limit, 0.1, at) for at, counts in drawn]
        }
        passed = [passing(tests, 1 - confidence)["false_present"] for confidence in CONFIDENCES]
        lowest.append(
            [population.risks[GRID.index(of_level[-1])] if of_level else 0.0 for of_level in passed]
        )
    yield from (np.array(lowest) > population.limit).mean(axis=0)


def main() -> None:
    columns = [f"{confidence:.0%}, {patients}" for confidence in CONFIDENCES for patients in SIZES]
    rows = []
    for name, population in (POPULATIONS | BREAKING).items():
        by_size = zip(*(broken(population, patients) for patients in SIZES), strict=True)
        figures = [f"{share:.3f}".removeprefix("0") for of_level in by_size for share in of_level]
        rows.append([f"{name}: {population.text}", *figures])
        print(rows[-1], flush=True)
    (RESULTS / "promise_populations.md").write_text(
        "\n".join(table(["confidence, patients", *columns], rows))
    )


if __name__ == "__main__":
    main()
