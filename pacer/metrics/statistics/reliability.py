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


def share_interval(parts: np.ndarray, wholes: np.ndarray, patients: np.ndarray) -> tuple[float, float, float]:
    """Return the share ``sum(parts) / sum(wholes)`` and its bootstrap interval over patients; NaN without a whole.

    Args:
        parts, wholes: [n]. patients: [n], indices from 0.
    """
    count = int(patients.max()) + 1
    sums = np.zeros((count, 2))
    np.add.at(sums, patients, np.stack([parts, wholes], 1))
    drawn = np.random.default_rng(SEED).multinomial(count, np.full(count, 1 / count), RESAMPLES) @ sums
    drawn = drawn[drawn[:, 1] > 0]
    if not len(drawn):
        return np.nan, np.nan, np.nan
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(sums[:, 0].sum() / sums[:, 1].sum()), float(low), float(high)


def reliability(cases: pl.DataFrame) -> Reliability:
    """Return the reliability of the probabilities of present findings in cases that have them."""
    probability, positive = (values.ravel() for values in cells(cases))
    patients = np.repeat(np.unique(cases["subject_id"].to_numpy(), return_inverse=True)[1], len(FINDINGS))
    bins, sizes = list[Bin](), list[float]()
    for part in np.array_split(np.argsort(probability, kind="stable"), BINS):
        share = share_interval(positive[part], np.ones(len(part)), patients[part])
        bins.append(Bin(float(probability[part].mean()), *share))
        sizes.append(len(part) / len(probability))
    base = float(positive.mean())
    return Reliability(
        bins,
        brier=float(np.square(probability - positive).mean()),
        reliability=sum(size * (one.probability - one.share) ** 2 for size, one in zip(sizes, bins, strict=True)),
        resolution=sum(size * (one.share - base) ** 2 for size, one in zip(sizes, bins, strict=True)),
        uncertainty=base * (1 - base),
    )
