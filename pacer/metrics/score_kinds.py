"""The type of a score: its row in the registry, and how it is computed from cases or from sums
over cases."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from pacer.metrics.clinical import CONVENTIONS, Convention, defined

#: Scores by key; ``None``: undefined.
Numbers = dict[str, float | None]
#: Table of the page that a score is a column of; empty: the score is only in ``scores.json``.
Place = Literal["scores", "originals", "contents", "commitments", "variety", "columns", ""]
Direction = Literal["higher", "lower"]
#: A function of cases that returns statistics of each, ``[n, k]``, by a convention.
PerCase = Callable[[pl.DataFrame, Convention], np.ndarray]


@dataclass(frozen=True)
class ContextCases:
    """The cases of a context; ``originals``: those with original findings, if any."""

    cases: pl.DataFrame
    convention: str
    originals: "ContextCases | None" = None
    _totals: dict[Callable, np.ndarray] = field(default_factory=dict, repr=False)

    def total(self, per_case: PerCase) -> np.ndarray:
        """Return the sums ``[k]`` of the statistics of all cases, which scores with the same
        function share."""
        if per_case not in self._totals:
            statistics = per_case(self.cases, CONVENTIONS[self.convention])
            self._totals[per_case] = statistics.sum(axis=0)
        return self._totals[per_case]


@dataclass(frozen=True)
class Sums:
    """A score as a function of sums over cases, which is what intervals and tests need.

    Attributes:
        per_case: the function that gives the statistics of each case ``[n, k]``, which are added
            up. Scores that share statistics name the same function.
        score: sums ``[..., k]`` -> score ``[...]``, NaN if undefined.
        counted: for a share of findings or records, or a mean over some of the records: the columns
            of the statistics whose sum is the denominator. This sum is shown in the signature, and
            only patients who add to it count as units of an interval. ``counted`` is empty for
            means over all records, and for scores such as F1; then every patient with a record in
            the context counts. With few patients, scores such as F1 are biased, which comparisons
            correct (``without_bias`` in ``statistics/halves.py``).
    """

    per_case: PerCase
    score: Callable[[np.ndarray, Convention], np.ndarray]
    counted: tuple[int, ...] = ()


@dataclass(frozen=True)
class Score:
    """One score of a context.

    Attributes:
        key: its name in ``scores.json``.
        title: its heading in its own table.
        meaning: what ``signature.json`` and the table in ``docs/scores.md`` say of it.
        sums: its definition, if it is a function of sums.
        compute: otherwise, a function that returns its value by its key.
        place: its table.
        better: which values are better; None: neither, or not known.
        interval: whether it has an interval, if it has sums.
        tested: whether two runs are compared by it.
        needs: column of the cases without whose values it does not apply.
        omit_if_undefined: if no case has a value, True leaves the score out, and False gives None.
        decimals: how many are printed; 0: a number of records, which has no mean over contexts.
        beside: its heading beside scores of other tables.
        short: its heading in tables of experiments.
    """

    key: str
    title: str
    meaning: str
    sums: Sums | None = None
    compute: Callable[[ContextCases], Numbers] | None = None
    place: Place = ""
    better: Direction | None = "higher"
    interval: bool = True
    tested: bool = False
    needs: str = "record_id"
    omit_if_undefined: bool = False
    decimals: int = 3
    beside: str = ""
    short: str = ""

    def applies(self, cases: pl.DataFrame) -> bool:
        """Return whether the cases have what it needs."""
        return self.needs in cases.columns and cases[self.needs].count() > 0

    def of(self, context: ContextCases) -> Numbers:
        """Return its value, None if undefined, by its key; empty if it does not apply."""
        if self.sums is None:
            return self.compute(context) if self.compute is not None else {}
        if not self.applies(context.cases):
            return {}
        rule = CONVENTIONS[context.convention]
        value = defined(self.sums.score(context.total(self.sums.per_case), rule))
        return {} if value is None and self.omit_if_undefined else {self.key: value}

    @property
    def heading(self) -> str:
        """Its heading beside scores of other tables."""
        return self.beside or self.title

    @property
    def column(self) -> str:
        """Its heading in a table of experiments."""
        return self.short or self.heading


def by_case(
    key: str,
    title: str,
    value: pl.Expr,
    meaning: str,
    better: Direction | None = None,
    *,
    interval: bool = False,
    needs: str = "",
    **further: Any,
) -> Score:
    """Return a score that is the mean of ``value`` over the cases that have one, if any. If it has
    an ``interval``, it is also tested. ``needs``: as for :class:`Score`; by default the column of
    ``value``, if this has only one."""

    def rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
        return mean_rows(cases.select(value.cast(pl.Float64)).to_series().to_numpy())

    sums = Sums(rows, lambda sums, _: mean(sums), counted=(1,))  # the number of cases with a value
    needs = needs or value.meta.root_names()[0]
    further |= {"better": better, "needs": needs, "omit_if_undefined": True}
    further |= dict.fromkeys(("interval", "tested"), interval)
    return Score(key, title, meaning, sums, **further)


def mean_rows(values: np.ndarray) -> np.ndarray:
    """Return the statistics ``[n, 2]`` of a score that is the mean over the rows whose value is not
    NaN: the value, and 1; or 0 and 0."""
    is_known = ~np.isnan(values)
    return np.stack([np.where(is_known, values, 0.0), is_known]).T


def mean(sums: np.ndarray) -> np.ndarray:
    """Return the mean from sums of :func:`mean_rows`; NaN without rows."""
    with np.errstate(invalid="ignore"):
        return sums[..., 0] / sums[..., 1]
