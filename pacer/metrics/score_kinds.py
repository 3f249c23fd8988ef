"""The type of a score: its row in the registry, and how it is computed from cases or from sums
over cases."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import polars as pl

from pacer.metrics.conventions import CONVENTIONS, Convention

#: Scores by key; ``None``: undefined.
Numbers = dict[str, float | None]
#: Table of the page that a score is a column of.
Place = Literal["scores", "originals", "contents", "commitments", "columns"]
Direction = Literal["higher", "lower"]
#: A function of columns of cases that returns statistics of each case, ``[n, k]``, by a
#: convention.
PerCase = Callable[[pl.DataFrame, Convention], np.ndarray]
#: The columns of :func:`mean_rows`.
VALUE, KNOWN = range(2)


@dataclass(frozen=True)
class ContextCases:
    """The cases of a context. ``originals``: those with original findings, if any. ``threshold``:
    the least probability of a finding that counts as present."""

    cases: pl.DataFrame
    convention: str
    originals: "ContextCases | None" = None
    threshold: float = 0.5
    _totals: dict[Callable, np.ndarray] = field(default_factory=dict, repr=False)

    def total(self, score: "Score", sums: "Sums") -> np.ndarray:
        """Return the sums ``[k]`` of a score's statistics over all cases. Scores with the same
        function share them."""
        if sums.per_case not in self._totals:
            columns = self.cases.select(score.needs)
            statistics = sums.per_case(columns, CONVENTIONS[self.convention])
            self._totals[sums.per_case] = statistics.sum(axis=0)
        return self._totals[sums.per_case]


@dataclass(frozen=True)
class Sums:
    """A score as a function of sums over cases, which is what intervals and tests need.

    Attributes:
        per_case: the function that gives the statistics of each case ``[n, k]``, which are added
            up. Scores that share statistics name the same function.
        score: sums ``[..., k]`` and convention -> score ``[...]``, NaN if undefined.
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
        place: its table.
        needs: the columns of the cases that it is computed from, and no others. It does not apply
            where the first has no values.
        sums: its definition, if it is a function of sums.
        compute: otherwise, a function that returns its value by its key.
        of_originals: whether it is computed over the cases with original findings, which are then
            the references.
        better: which values are better; None: neither, or not known.
        interval: whether it has an interval, if it has sums.
        tested: whether two runs are compared by it.
        omit_if_undefined: if no case has a value, True leaves the score out, and False gives None.
        decimals: how many are printed; 0: a number of records, which has no mean over contexts.
        beside: its heading beside scores of other tables.
        short: its heading in tables of experiments.
    """

    key: str
    title: str
    meaning: str
    place: Place
    needs: tuple[str, ...]
    sums: Sums | None = None
    compute: Callable[[ContextCases], Numbers] | None = None
    of_originals: bool = False
    better: Direction | None = "higher"
    interval: bool = True
    tested: bool = False
    omit_if_undefined: bool = False
    decimals: int = 3
    beside: str = ""
    short: str = ""

    def applies(self, cases: pl.DataFrame) -> bool:
        """Return whether the cases have what it needs."""
        return {*self.needs} <= {*cases.columns} and cases[self.needs[0]].count() > 0

    def of(self, context: ContextCases) -> Numbers:
        """Return its value, None if undefined, by its key; empty if it does not apply."""
        if self.of_originals:
            if context.originals is None:
                return {}
            context = context.originals
        if not self.applies(context.cases):
            return {}
        if self.sums is None:
            return self.compute(context) if self.compute is not None else {}
        rule = CONVENTIONS[context.convention]
        value = defined(self.sums.score(context.total(self, self.sums), rule))
        return {} if value is None and self.omit_if_undefined else {self.key: value}

    @property
    def heading(self) -> str:
        """Its heading beside scores of other tables."""
        return self.beside or self.title

    @property
    def column(self) -> str:
        """Its heading in a table of experiments."""
        return self.short or self.heading


def defined(value: float | np.ndarray) -> float | None:
    """Return a score as a number, and NaN as None."""
    return None if np.isnan(value) else float(value)


def values_of(scores: Iterable[Score], context: ContextCases) -> Numbers:
    """Return those of the scores that apply to a context."""
    return {key: value for score in scores for key, value in score.of(context).items()}


def mean_over_cases(
    key: str, title: str, meaning: str, per_case: PerCase, *, tested: bool = False, **further: Any
) -> Score:
    """Return a score that is the mean over the cases that have a value, of which ``per_case`` makes
    :func:`mean_rows`; it is left out if no case has one. It has an interval if it is ``tested``.
    ``further``: other fields of :class:`Score`."""
    sums = Sums(per_case, _mean_of_sums, counted=(KNOWN,))
    further |= {"interval": tested, "tested": tested, "omit_if_undefined": True}
    return Score(key, title, meaning, sums=sums, **further)


def column_score(name: str) -> Score:
    """Return the score of a user's column of numbers, whose better values are unknown."""
    return mean_over_cases(
        name,
        name,
        "mean of your column",
        partial(_column_rows, name),
        place="columns",
        needs=(name,),
        better=None,
        tested=True,
    )


def _column_rows(name: str, cases: pl.DataFrame, _: Convention) -> np.ndarray:
    return mean_rows(cases[name])


def mean_rows(values: np.ndarray | pl.Series) -> np.ndarray:
    """Return the statistics ``[n, 2]`` of a score that is the mean over the rows whose value is
    neither NaN nor null: the value, and 1; or 0 and 0."""
    if isinstance(values, pl.Series):
        values = values.cast(pl.Float64).to_numpy()
    is_known = ~np.isnan(values)
    return np.stack([np.where(is_known, values, 0.0), is_known]).T


def mean(sums: np.ndarray) -> np.ndarray:
    """Return the mean from sums of :func:`mean_rows`; NaN without rows."""
    with np.errstate(invalid="ignore"):
        return sums[..., VALUE] / sums[..., KNOWN]


def _mean_of_sums(sums: np.ndarray, _: Convention) -> np.ndarray:
    return mean(sums)
