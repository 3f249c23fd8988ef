"""Reliability of the probabilities of findings: is what is stated with 70 % there in 70 of 100 cases?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from pacer.commitments.anchor import FINDINGS
from pacer.metrics.reading import cells
from pacer.metrics.statistics.bootstrap import Interval, Summed, by_unit, intervals
from pacer.metrics.statistics.intervals import resampled_units

#: Bins of a reliability curve, with equal numbers of cells.
BINS = 10


class Reliability(NamedTuple):
    """A reliability curve: by bin the mean ``probabilities`` and the ``shares`` of positive cells."""

    probabilities: list[float]
    shares: list[Interval]


def share_intervals(counts: Mapping[str, np.ndarray]) -> dict[str, Interval]:
    """Return for each table [patients, 2] the share of its first column in its second, with a bootstrap interval."""

    def share(sums: np.ndarray) -> np.ndarray:
        return np.divide(sums[..., 0], sums[..., 1], out=np.full(sums.shape[:-1], np.nan), where=sums[..., 1] > 0)

    return intervals({("", name): Summed(table, share) for name, table in counts.items()})[""]


def reliability(cases: pl.DataFrame) -> Reliability:
    """Return the reliability of the probabilities of present findings in cases that have them."""
    probability, positive = (values.ravel() for values in cells(cases))
    units = resampled_units(cases)
    patients = np.repeat(units.codes, len(FINDINGS))
    bins = np.array_split(np.argsort(probability, kind="stable"), BINS)
    of_bins = [np.stack([positive[part], np.ones(len(part))], 1) for part in bins]
    tables = {str(place): by_unit(rows, patients[bins[place]], units.count) for place, rows in enumerate(of_bins)}
    means = [float(probability[part].mean()) for part in bins]
    return Reliability(means, list(share_intervals(tables).values()))
