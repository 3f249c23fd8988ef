"""The scores of the cards: of the user's tables, of functions, and of this package."""

from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import signature
from pathlib import Path

import numpy as np
import polars as pl

from pacer.core.errors import ConfigError
from pacer.data.columns import read_columns
from pacer.metrics.calls import score
from pacer.metrics.clinical import CONVENTIONS
from pacer.metrics.columns import metrics_of
from pacer.metrics.nlg import cider_by_case
from pacer.metrics.options import DEFAULTS, Function
from pacer.metrics.scores import SCORE_OF, score_of


def scores_of(
    cards: pl.DataFrame,
    tables: Mapping[str, Path],
    names: Collection[str],
    lower_is_better: bool = False,
    chexbert: Path | None = None,
) -> dict[str, np.ndarray]:
    """Return the scores of the cards by metric, NaN where undefined; higher ones are better.

    Args:
        tables: with the columns ``id`` and ``score``, by the name of the metric.
        names: keys of scores of this package, which score each text as if it were the only one;
            or functions (see :func:`~pacer.metrics.columns.metrics_of`).
        lower_is_better: of tables and functions.
        chexbert: folder of the labeller, for scores of labels.

    Raises:
        ConfigError: nothing is named, or a score has no value for one text. DataError: as
            :func:`~pacer.data.columns.read_columns`, or a function fails.
    """
    ids = cards["id"].to_list()
    read = {name: read_columns(path, ids, "id", "score")["score"] for name, path in tables.items()}
    scores = {name: values.fill_null(np.nan).to_numpy() for name, values in read.items()}
    functions = metrics_of([name for name in names if name not in SCORE_OF])
    if names:
        sides = (dict(zip(ids, cards[side])) for side in ("reference", "text"))
        calls = {name: called(function) for name, function in functions.items()}
        without = {"meteor"}.difference(names)
        cases = score(*sides, chexbert=chexbert, metrics=calls, without=without).cases
        scores |= {name: by_case(name, cases) for name in names}
    return {
        name: -values if lower_is_better and name not in SCORE_OF else values
        for name, values in scores.items()
    }


def by_case(name: str, cases: pl.DataFrame) -> np.ndarray:
    """Return a score of each case as if it were the only one; higher is better."""
    known, rule = score_of(name), CONVENTIONS[DEFAULTS.convention]
    values = cider_by_case(cases) if name == "cider" else None
    if known.sums and known.needs in cases.columns and cases[known.needs].count():
        values = known.sums.score(known.sums.rows(cases, rule), rule)
    if values is None:
        raise ConfigError(f"metric {name} has no value for one text, or needs --chexbert")
    return -values if known.better == "lower" else values


def called(function: Callable[..., Iterable[float]]) -> Function:
    """Return a function of references and texts; a reward gets them by their names."""
    if "completions" in signature(function).parameters:
        return lambda references, texts: function(completions=texts, references=references)
    return function
