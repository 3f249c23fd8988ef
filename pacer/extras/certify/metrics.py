"""The scores of the cards: of the user's tables, of functions, and of this package."""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from pacer.core.errors import ConfigError, DataError
from pacer.extras.certify.cards import UNCHANGED
from pacer.metrics.columns import metrics_of
from pacer.metrics.conventions import CONVENTIONS
from pacer.metrics.language import cider_by_case
from pacer.metrics.options import DEFAULTS
from pacer.metrics.scores import SCORE_OF, score_of
from pacer.statistics.calls import score
from pacer.tables.columns import read_columns

_log = logging.getLogger(__name__)


def scores_of(
    cards: pl.DataFrame,
    tables: Mapping[str, Path],
    names: Collection[str],
    lower_is_better: Collection[str] = (),
    chexbert: Path | None = None,
) -> dict[str, np.ndarray]:
    """Return the scores of the cards by metric, of which higher ones are better; NaN: undefined.

    Args:
        tables: with the columns ``id`` and ``score``, by the name of the metric.
        names: keys of scores of this package, which score each text as if it were the only one;
            or functions (see :func:`~pacer.metrics.columns.metrics_of`).
        lower_is_better: names of tables and functions; it is known of this package's scores.
        chexbert: folder of the labeller, for scores of labels.

    Raises:
        ConfigError: a name is unknown, or a score has no value for one text. DataError: as
            :func:`~pacer.tables.columns.read_columns`, or a function fails.
    """
    if unknown := {*lower_is_better}.difference(tables, names):
        raise ConfigError(
            f"--lower-is-better {min(unknown)}: there is no such table or function; name one of "
            f"{', '.join([*tables, *names])}"
        )
    scores = {name: _of_table(cards, path) for name, path in tables.items()}
    lower = {*lower_is_better}
    if names:
        functions = metrics_of(sorted({*names} - SCORE_OF.keys()))
        cases = score(
            cards["reference"],
            cards["text"],
            chexbert=chexbert,
            metrics=functions,
            without={"meteor"}.difference(names),
            as_is=True,
        ).cases
        rule = CONVENTIONS[DEFAULTS.convention]
        for name in names:
            known = score_of(name)
            values = cider_by_case(cases) if name == "cider" else None
            if known.sums and not known.of_originals and known.applies(cases):
                values = known.sums.score(known.sums.per_case(cases, rule), rule)
            if values is None:
                raise ConfigError(f"metric {name} has no value for one text, or needs --chexbert")
            scores[name] = values
            if known.better == "lower":
                lower.add(name)
    return {name: -values if name in lower else values for name, values in scores.items()}


def _of_table(cards: pl.DataFrame, path: Path) -> np.ndarray:
    """Read a table of scores. Raises a DataError if an unchanged text has no score, to which all
    others are compared."""
    scores = read_columns(path, cards["id"].to_list(), "id", "score")["score"].to_numpy()
    missing = cards.filter(np.isnan(scores))["kind"].to_list()
    if UNCHANGED in missing:
        raise DataError(
            f"{path}: {missing.count(UNCHANGED):,} texts of kind {UNCHANGED} have no score; all "
            "other texts are compared with them, so score these too"
        )
    if missing:
        _log.warning(f"{path}: {len(missing):,} of {cards.height:,} texts have no score")
    return scores
