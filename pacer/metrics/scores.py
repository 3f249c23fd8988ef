"""The registry of scores: the rows of :mod:`~pacer.metrics.clinical`,
:mod:`~pacer.metrics.findings`, :mod:`~pacer.metrics.language` and :mod:`~pacer.metrics.run`.

The scores of a context, intervals, comparisons, tables, the page, ``signature.json`` and
the table in ``docs/scores.md`` read it. A new score is a row of its family, with a function for the
statistics of each case, one for the number from their sums, an example, and its test. A column of
the cases that it needs is added in :mod:`pacer.metrics.reading`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import polars as pl

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import ConfigError
from pacer.metrics import clinical, findings, language, run
from pacer.metrics.cases import MEAN
from pacer.metrics.score_kinds import ContextCases, Numbers, Place, Score, column_score, values_of


def count(context: ContextCases) -> Numbers:
    """Return the number of records, which has no mean over contexts."""
    return {"n": len(context.cases)}


SCORES: tuple[Score, ...] = (
    *clinical.SCORES,
    *findings.SCORES,
    *language.SCORES,
    Score(
        key="n",
        title="n",
        meaning="records",
        place="scores",
        needs=("record_id",),
        compute=count,
        better=None,
        decimals=0,
    ),
    *run.SCORES,
)
#: The scores by key.
SCORE_OF = {score.key: score for score in SCORES}


def score_of(key: str) -> Score:
    """Return the score with a key; any other key is a column of ``score.columns``."""
    return SCORE_OF.get(key) or column_score(key)


def scores_at(place: Place) -> list[Score]:
    """Return the columns of one table."""
    return [score for score in SCORES if score.place == place]


def main_scores(scores: Mapping[str, Any]) -> dict[str, Numbers]:
    """Return the scores of the main table, of each context and their mean, in the form of
    ``scores.json``."""
    keys = [score.key for score in scores_at("scores") if score.decimals]
    return {
        context: {key: scores[context][key] for key in keys if key in scores[context]}
        for context in (*CONTEXTS, MEAN)
        if context in scores
    }


def check_keys(keys: Iterable[str]) -> None:
    """Raise a :class:`~pacer.core.errors.ConfigError` if a key is not in the registry."""
    if unknown := [key for key in keys if key not in SCORE_OF or key == "n"]:
        raise ConfigError(
            f"without (--without): unknown score {unknown[0]}; expected one of "
            f"{', '.join(key for key in SCORE_OF if key != 'n')}"
        )


def _scores_but(without: Collection[str]) -> list[Score]:
    """Return all scores but those ``without`` and their twins against originals."""
    return [
        score
        for score in SCORES
        if not {score.key, score.key.removeprefix("original_")} & {*without}
    ]


def context_scores(context: ContextCases, without: Collection[str] = ()) -> Numbers:
    """Return every score of a context that applies to it, but those ``without``."""
    return values_of(_scores_but(without), context)


def scores_with_intervals(
    cases: pl.DataFrame, columns: Iterable[str] = (), without: Collection[str] = ()
) -> list[Score]:
    """Return the scores of these cases that have sums and an interval, but those ``without``, and
    one score for each of the user's ``columns``."""
    scores = [s for s in _scores_but(without) if s.sums and s.interval and s.applies(cases)]
    return scores + list(map(score_of, columns))


def context_counts(
    context: ContextCases, columns: Iterable[str], without: Collection[str] = ()
) -> dict[str, int]:
    """Return the number of findings, or of records, behind each of a context's
    :func:`scores_with_intervals` that is a share of them (``Sums.counted``)."""
    return {
        score.key: int(context.total(score, score.sums)[list(score.sums.counted)].sum())
        for score in scores_with_intervals(context.cases, columns, without)
        if score.sums and score.sums.counted
    }
