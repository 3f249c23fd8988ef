"""What a score is: its row in the registry, how it is computed from cases, and from sums over cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from pacer.metrics.clinical import Convention

#: Scores by key; ``None``: undefined.
Numbers = dict[str, float | None]
#: Table of the page that a score is a column of; empty: the score is only in ``scores.json``.
Place = Literal["scores", "originals", "contents", "commitments", "variety", "columns", ""]
Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Context:
    """What the scores of one context are computed from. ``originals``: its cases with original findings as references,
    if there are any."""

    cases: pl.DataFrame
    originals: pl.DataFrame | None
    convention: str


@dataclass(frozen=True)
class Sums:
    """A score as a function of sums over cases, which is what intervals and tests need.

    ``rows``: the statistics of each case ``[n, k]``; scores that share them name the same function. ``score``: sums
    ``[..., k]`` -> score ``[...]``, NaN if undefined. ``counted``: the columns of the rows that add up to the number of
    findings, or records, that it is a share or a mean of; none: it is no share, or all records count.
    """

    rows: Callable[[pl.DataFrame, Convention], np.ndarray]
    score: Callable[[np.ndarray, Convention], np.ndarray]
    counted: tuple[int, ...] = ()


class Column(NamedTuple):
    """A column of ``cases.parquet`` that is there for a score: the ``values`` of all cases, of type ``kind``; null: a
    case without one."""

    name: str
    kind: pl.DataType
    values: Callable[[pl.DataFrame], Iterable[Any]]


@dataclass(frozen=True)
class Score:
    """One score of a context.

    Attributes:
        key: its name in ``scores.json``. title: its heading in its own table.
        of: computes it from all rows of a context, perhaps with related scores; leaves out what does not apply.
        meaning: what ``signature.json`` and the table in ``docs/evaluation.md`` say of it.
        case_column: made for it before scores are computed, from the texts and what the rules read in them.
        place: its table. better: which values are better; None: neither, or not known.
        sums: for its interval; None: it has none. tested: whether two runs are compared by it.
        needs: column of the cases without which there are no sums.
        decimals: as it is printed; 0: a number of records, which has no mean over contexts.
        beside: its heading beside scores of other tables. short: that of studies.
    """

    key: str
    title: str
    of: Callable[[Context], Mapping[str, float | None]]
    meaning: str
    place: Place = ""
    better: Direction | None = "higher"
    sums: Sums | None = None
    tested: bool = False
    needs: str = "record_id"
    decimals: int = 3
    beside: str = ""
    short: str = ""
    case_column: Column | None = None

    @property
    def heading(self) -> str:
        """Its heading beside scores of other tables."""
        return self.beside or self.title

    @property
    def column(self) -> str:
        """Its heading in the table of a study."""
        return self.short or self.heading


def by_case(
    key: str,
    title: str,
    value: pl.Expr,
    meaning: str,
    better: Direction | None = None,
    *,
    interval: bool = False,
    **further: Any,
) -> Score:
    """Return a score that is the mean of ``value`` over the cases that have one; left out if no case has. With an
    interval it is also tested."""
    columns = value.meta.root_names()

    def numbers(cases: pl.DataFrame) -> np.ndarray:
        known = all(name in cases.columns for name in columns)
        return cases.select(value.cast(pl.Float64)).to_series().to_numpy() if known else np.full(len(cases), np.nan)

    def of(context: Context) -> Numbers:
        defined = numbers(context.cases)
        defined = defined[~np.isnan(defined)]
        return {key: float(defined.mean())} if len(defined) else {}

    further |= {"better": better, "needs": columns[0], "tested": interval}
    sums = Sums(lambda cases, _: mean_rows(numbers(cases)), lambda sums, _: mean(sums), counted=(1,))
    return Score(key, title, of, meaning, sums=sums if interval else None, **further)


def mean_rows(values: np.ndarray) -> np.ndarray:
    """Return the statistics ``[n, 2]`` of a score that is the mean over the rows whose value is not NaN."""
    defined = ~np.isnan(values)
    return np.stack([np.where(defined, values, 0.0), defined], axis=1)


def mean(sums: np.ndarray) -> np.ndarray:
    """Return the mean from sums of :func:`mean_rows`; NaN without rows."""
    with np.errstate(invalid="ignore"):
        return sums[..., 0] / sums[..., 1]


def is_empty(side: str) -> pl.Expr:
    """Return whether a text consists only of spaces and periods."""
    return pl.col(side).str.strip_chars(" .") == ""
