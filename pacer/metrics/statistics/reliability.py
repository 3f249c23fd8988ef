"""Reliability of the probabilities of findings: is what is stated with 70 % there in 70 of 100 cases?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from pacer.commitments.anchor import FINDINGS
from pacer.metrics.reading import cells
from pacer.metrics.statistics.bootstrap import LEVEL, SEED

#: Bins of a reliability curve, with equal numbers of cells, and bootstrap samples of the patients.
BINS, RESAMPLES = 10, 1000


class Bin(NamedTuple):
    """A bin of a reliability curve: mean probability, the share of positive cells, and its interval over patients."""

    probability: float
    share: float
    low: float
    high: float


class Reliability(NamedTuple):
    """A reliability curve, and the Brier score with Murphy's decomposition over the bins: ``reliability`` (0 is best)
    minus ``resolution`` plus ``uncertainty``. What is left is the spread within bins."""

    bins: list[Bin]
    brier: float
    reliability: float
    resolution: float
    uncertainty: float


def reliability(cases: pl.DataFrame) -> Reliability:
    """Return the reliability of the probabilities of present findings in cases that have them."""
    probability, positive = (values.ravel() for values in cells(cases))
    patients = np.repeat(np.unique(cases["subject_id"].to_numpy(), return_inverse=True)[1], len(FINDINGS))
    order, count = np.argsort(probability, kind="stable"), int(patients.max()) + 1
    weights = np.random.default_rng(SEED).multinomial(count, np.full(count, 1 / count), RESAMPLES)
    bins, sizes = list[Bin](), list[float]()
    for part in np.array_split(order, BINS):
        sums = np.zeros((count, 2))
        np.add.at(sums, patients[part], np.stack([positive[part], np.ones(len(part))], 1))
        drawn = weights @ sums
        shares = drawn[drawn[:, 1] > 0]
        low, high = np.quantile(shares[:, 0] / shares[:, 1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        bins.append(Bin(float(probability[part].mean()), float(positive[part].mean()), float(low), float(high)))
        sizes.append(len(part) / len(order))
    base = float(positive.mean())
    return Reliability(
        bins,
        brier=float(np.square(probability - positive).mean()),
        reliability=sum(size * (one.probability - one.share) ** 2 for size, one in zip(sizes, bins, strict=True)),
        resolution=sum(size * (one.share - base) ** 2 for size, one in zip(sizes, bins, strict=True)),
        uncertainty=base * (1 - base),
    )
