"""Reliability of the probabilities of findings: is what is stated with 70 % there in 70 of 100 cases?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from pacer.commitments.anchor import FINDINGS
from pacer.metrics.reading import cells
from pacer.metrics.score_kinds import mean, mean_rows
from pacer.metrics.statistics.bootstrap import Interval, Summed, by_unit, intervals
from pacer.metrics.statistics.intervals import resampled_units

#: Bins of a reliability curve, with equal numbers of cells.
BINS = 10


class Reliability(NamedTuple):
    """A reliability curve: by bin the mean ``probabilities`` and the ``shares`` of positive cells."""

    probabilities: list[float]
    shares: list[Interval]


def reliability(cases: pl.DataFrame) -> Reliability:
    """Return the reliability of the probabilities of present findings in cases that have them."""
    probability, positive = (values.ravel() for values in cells(cases))
    units = resampled_units(cases)
    patients = np.repeat(units.codes, len(FINDINGS))
    bins = np.array_split(np.argsort(probability, kind="stable"), BINS)
    tables = (by_unit(mean_rows(positive[part]), patients[part], units.count) for part in bins)
    shares = intervals({("", str(place)): Summed(table, mean) for place, table in enumerate(tables)})[""]
    means = [float(probability[part].mean()) for part in bins]
    return Reliability(means, list(shares.values()))
