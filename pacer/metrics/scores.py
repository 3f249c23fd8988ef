"""The registry of scores: one row for each. The modules that it imports compute them.

The scores of a context, intervals, comparisons, tables, the page, ``signature.json`` and
the table in ``docs/scores.md`` read it. A new score is a row of :data:`SCORES`, with its
function and its test; one that is a mean over cases needs no more than :func:`by_case`. A column of
the cases that it needs is added in :mod:`pacer.metrics.reading`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from pacer.core.contexts import CONTEXTS, contexts_within
from pacer.core.errors import ConfigError
from pacer.metrics.cases import MEAN
from pacer.metrics.clinical import Convention, Ratio, averaged, label_rows
from pacer.metrics.commitments import (
    KINDS,
    KINDS_OF_REPORT,
    SOURCE_KINDS,
    attribute_share,
    list_rows,
    probability_scores,
)
from pacer.metrics.nlg import bleu, bleu_statistics, cider, meteor, meteor_statistics
from pacer.metrics.score_kinds import (
    ContextCases,
    Numbers,
    Place,
    Score,
    Sums,
    by_case,
    mean,
    mean_rows,
)

#: Whether the context of a case has no previous report (sn and mn): nothing can be "unchanged"
#: there, so such wording is invented. Reports of an unknown context may have had one.
_WITHOUT_PRIOR = pl.col("context").is_in(contexts_within(lateral=True, prior=False))
_EFFICACY = "CheXbert's labels, report against reference, by `score.convention`"
_BLEU = "corpus level, closest reference length (pycocoevalcap)"
_POLARITY = (
    "findings that the rules read in the report, against the reference commitment, over all records"
)
_OF_ANCHOR = (
    "generated commitment against the reference commitment, over records with a generated one"
)
_EXACT = (
    "Positive F1 in which a finding counts as right only if the report has the sides that the "
    "reference names and, where it names severities or courses, one or more of them and no other"
)
_CEILING = (
    "Positive F1 of the cleaned references, scored against the findings of the uncleaned "
    "references: the best that a copy can reach"
)
_AGREES = (
    "agreement rate among findings affirmed in both texts for which the reference gives the "
    "attribute"
)
_CHANCE = ", in reports written with another patient's sources (control another_patient)"
_SWITCHES = (
    "reports with a finding on the left in one sentence and on the right in another, and never "
    "described as bilateral"
)
_PRESENCE = "probabilities that findings are present (`findings`), against the reference commitment"
_COMPARES = (
    "reports that compare with an earlier examination (rules of `pacer/text/cleaning/wording.yaml`)"
)
_UNFOUNDED = (
    "reports that make comparisons although no previous report was given; over contexts without one"
)
_REPEATS = (
    "share of a report's words that repeat the one to eight words just before them, or are in a "
    "sentence that occurred earlier; mean over reports"
)


def _of_originals(score: Score, **changes: str) -> Score:
    """Return the score of the cases that have original findings, with these as references."""

    def compute(context: ContextCases) -> Numbers:
        values = score.of(context.originals) if context.originals else {}
        return {f"original_{key}": value for key, value in values.items()}

    return replace(
        score,
        key=f"original_{score.key}",
        compute=compute,
        sums=None,
        tested=False,
        place="originals",
        **changes,
    )


def _original(score: Score) -> Score:
    return _of_originals(
        score,
        meaning="the same score against the original findings",
        beside=f"Original {score.title}",
        short=f"Orig. {score.short}",
    )


def _of_probabilities(key: str) -> Callable[[ContextCases], Numbers]:
    return lambda context: {
        one: value for one, value in probability_scores(context.cases).items() if one == key
    }


def _listed(
    stated: pl.Expr,
    wanted: pl.Expr,
    right: pl.Expr | None = None,
    ratio: Ratio = "f1",
) -> Sums:
    """Return a ratio of two lists of findings, those that are stated and those that should be;
    ``right``: those that are stated rightly, by default all that are in both."""
    both = stated.list.set_intersection(wanted) if right is None else right
    return Sums(
        lambda cases, _: list_rows(cases, both, stated, wanted),
        lambda sums, _: averaged(sums, ratio),
        # the columns are hits, predicted and expected: recall is a share of the expected; F1 is no
        # share
        counted=(2,) if ratio == "recall" else (),
    )


def _polarity(polarity: str, side: str) -> Sums:
    return _listed(pl.col(f"{side}_{polarity}"), pl.col(f"reference_{polarity}"))


def _of_report(polarity: str, *, tested: bool) -> Score:
    return Score(
        key=f"report_{polarity}_f1",
        title=f"{polarity.capitalize()} F1",
        meaning=_POLARITY,
        sums=_polarity(polarity, "report"),
        place="contents",
        interval=tested,
        tested=tested,
    )


def _of_labels(ratio: Ratio, title: str, **further: Any) -> Score:
    return Score(
        key=ratio,
        title=title,
        meaning=_EFFICACY,
        # without `counted`: F1 is no share, and the denominators depend on the convention
        sums=Sums(label_rows, lambda sums, rule: averaged(sums, ratio, rule.averages[0])),
        place="scores",
        needs="hypothesis_labels",
        **further,
    )


def _bleu_rows(cases: pl.DataFrame, rule: Convention) -> np.ndarray:
    return bleu_statistics(cases["reference"], cases["hypothesis"])


def _bleu(order: int) -> Score:
    return Score(
        key=f"bleu{order}",
        title=f"BLEU-{order}",
        meaning=_BLEU,
        sums=Sums(_bleu_rows, lambda sums, _: bleu(sums, order)),
        place="scores",
        tested=order == 4,
        needs="reference",
        short=f"B@{order}",
    )


def _stated(key: str, suffix: str, *, needs: str, stated: pl.Expr | None = None) -> Score:
    """Return the score of findings that a source (the previous report or the lateral view) adds or
    lacks; for instance of those that only the previous report has (``gone_stated``).

    Args:
        key: which findings, as described in ``SOURCE_KINDS`` (``commitments.py``).
        suffix: which reports: written with the source or without it, or the previous report itself
            (``KINDS_OF_REPORT``, in the same file). The score's key ends with it.
        needs: the column without which there is no score.
        stated: the findings that these reports affirm; by default the column ``needs``.
    """
    kind = SOURCE_KINDS[key]
    lists = pl.col(needs) if stated is None else stated
    # one text for the scores of all kinds of reports, which share a line in the documentation
    if kind.ratio == "f1":
        meaning = f"F1 of affirmed findings {kind.meaning}"
    else:
        meaning = (
            f"of the findings affirmed in {kind.meaning}, the share affirmed by reports written "
            "with the source, and without it"
        )
    return Score(
        key=key + suffix,
        title=f"{kind.name}, {KINDS_OF_REPORT[suffix]}",
        meaning=meaning,
        sums=_listed(lists, kind.findings, ratio=kind.ratio),
        better=kind.better,
        needs=needs,
    )


def _attribute(kind: str | None, chance: bool = False) -> Score:
    """Return the score of a kind of attribute (None: mean of all), by ``chance`` with other
    patients' sources. It is a share of sums over a column of counts, and is left out if no case has
    them."""
    key = f"attributes_{kind}" if kind else "attributes"
    column = "attributes"
    title = f"{kind.capitalize()} agrees" if kind else "Attributes"
    if chance:
        key += "_chance"
        column = "chance_attributes"
        title = f"{(kind or 'attributes').capitalize()} by chance"
    # columns: how often the texts agree in each kind, then how often the reference names it
    width = 2 * len(KINDS)
    named = (index for index, one in enumerate(KINDS, len(KINDS)) if kind in (None, one))

    def rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
        return np.array([one or [0] * width for one in cases[column].to_list()], dtype=float)

    return Score(
        key=key,
        title=title,
        meaning=f"{kind or 'mean of side, severity and course'}: {_AGREES}{_CHANCE * chance}",
        sums=Sums(rows, lambda sums, _: attribute_share(sums, kind), counted=tuple(named)),
        place="contents",
        better=None if chance else "higher",
        tested=not chance,
        needs=column,
    )


def _has(column: str) -> pl.Expr:
    """Return whether the list in a column has entries."""
    return pl.col(column).list.len() > 0


def _is_mode(side: str) -> pl.Expr:
    """Return whether a text is the most frequent one, any one of several."""
    return pl.col(side) == pl.col(side).mode().first()


#: A number of records, which has no mean over contexts.
_COUNT = Score(
    key="n",
    title="n",
    meaning="records",
    compute=lambda context: {"n": len(context.cases)},
    place="scores",
    better=None,
    decimals=0,
)
_BLEU_1, _BLEU_2, _BLEU_3, _BLEU_4 = map(_bleu, range(1, 5))
_ROUGE = Score(
    key="rougeL",
    title="ROUGE-L",
    meaning="F with beta 1.2, tokens split at single spaces, mean over reports (pycocoevalcap)",
    sums=Sums(
        # the copy keeps the last digits of ROUGE-L as they were in earlier versions: numpy adds the
        # transposed view that `mean_rows` returns in another order
        lambda cases, _: np.ascontiguousarray(mean_rows(cases["rougeL"].to_numpy())),
        # without `counted`, because every record has a value
        lambda sums, _: mean(sums),
    ),
    place="scores",
    tested=True,
    needs="rougeL",
    short="R-L",
)
_METEOR = Score(
    key="meteor",
    title="METEOR",
    meaning="METEOR 1.5, -l en -norm, its own corpus aggregate (pycocoevalcap)",
    sums=Sums(
        lambda cases, _: meteor_statistics(cases["meteor_statistics"].to_list()),
        lambda sums, _: meteor(sums),
    ),
    place="scores",
    tested=True,
    needs="meteor_statistics",
    short="MTR",
)
_CIDER = Score(
    key="cider",
    title="CIDEr",
    meaning="CIDEr-D, document frequencies from the context's references, mean over reports "
    "(pycocoevalcap)",
    compute=lambda context: {"cider": cider(context.cases)},
    place="scores",
)
_REPORT, _REFERENCE = pl.col("report_positive"), pl.col("reference_positive")

SCORES: tuple[Score, ...] = (
    _of_labels("precision", "P"),
    _of_labels("recall", "R"),
    _of_labels("f1", "F1", tested=True, beside="CE F1", short="F1"),
    _of_report("positive", tested=True),
    _of_report("negative", tested=True),
    Score(
        key="exact_f1",
        title="Exact F1",
        meaning=_EXACT,
        sums=_listed(_REPORT, _REFERENCE, right=pl.col("exact_positive")),
        place="contents",
        tested=True,
        needs="exact_positive",
    ),
    _BLEU_1,
    _BLEU_2,
    _BLEU_3,
    _BLEU_4,
    _ROUGE,
    _METEOR,
    _CIDER,
    _COUNT,
    _original(_BLEU_1),
    _original(_BLEU_4),
    _original(_ROUGE),
    _of_originals(_COUNT, meaning="records with original findings"),
    _of_report("uncertain", tested=False),
    by_case(
        "prior_wording_rate", "Compares", _has("hypothesis_wording"), _COMPARES, place="contents"
    ),
    by_case(
        "reference_prior_wording_rate",
        "References compare",
        _has("reference_wording"),
        "`prior_wording_rate` of the references",
        place="contents",
    ),
    by_case(
        "unfounded_prior_wording_rate",
        "Compares without a prior",
        pl.when(_WITHOUT_PRIOR).then(_has("hypothesis_wording")),
        _UNFOUNDED,
        "lower",
        needs="hypothesis_wording",
        place="contents",
    ),
    by_case(
        "side_switch_rate",
        "Switches sides",
        _has("hypothesis_side_switches"),
        _SWITCHES,
        "lower",
        place="contents",
    ),
    by_case(
        "reference_side_switch_rate",
        "References switch",
        _has("reference_side_switches"),
        "`side_switch_rate` of the references",
        place="contents",
    ),
    _attribute(None),
    _attribute(None, chance=True),
    _attribute("side"),
    _attribute("side", chance=True),
    _attribute("severity"),
    _attribute("severity", chance=True),
    _attribute("course"),
    _attribute("course", chance=True),
    Score(
        key="ceiling_f1",
        title="Ceiling",
        meaning=_CEILING,
        sums=_polarity("positive", "copy"),
        interval=False,
        needs="copy_positive",
    ),
    Score(
        key="anchor_positive_f1",
        title="Positive F1",
        meaning=_OF_ANCHOR,
        sums=_polarity("positive", "anchor"),
        place="commitments",
        interval=False,
        needs="anchor_positive",
        beside="Commitment positive F1",
    ),
    by_case(
        "affirms_nothing",
        "Lists nothing",
        pl.col("anchor_positive").list.len() == 0,
        "commitments that affirm no finding",
        place="commitments",
    ),
    by_case(
        "reference_affirms_nothing",
        "References list nothing",
        pl.col("reference_positive").list.len() == 0,
        "`affirms_nothing` of the references",
        place="commitments",
    ),
    by_case(
        "contradiction_rate",
        "Contradicts",
        _has("contradictions"),
        "reports that state the opposite of their commitment",
        "lower",
        interval=True,
        place="commitments",
    ),
    Score(
        key="read_f1",
        title="Read F1",
        meaning=f"{_PRESENCE}; a finding counts as present if its probability is at least "
        "`decode.threshold`",
        compute=_of_probabilities("read_f1"),
        place="commitments",
    ),
    Score(
        key="read_auroc",
        title="Read AUROC",
        meaning=f"{_PRESENCE}; AUROC of each finding, averaged over the findings",
        compute=_of_probabilities("read_auroc"),
        place="commitments",
    ),
    Score(
        key="read_brier",
        title="Read Brier",
        meaning=f"{_PRESENCE}; Brier score",
        compute=_of_probabilities("read_brier"),
        place="commitments",
        better="lower",
    ),
    by_case("gate", "Gate", pl.col("gate"), "mean gate of the calibrator", place="commitments"),
    by_case(
        "fallback_rate",
        "Fallback",
        pl.col("fallback"),
        "no parsable report (raw text scored)",
        "lower",
        place="commitments",
    ),
    _stated("persisting_stated", "", needs="prior_positive", stated=_REPORT),
    _stated("persisting_stated", "_without", needs="no_prior_positive"),
    _stated("gone_stated", "", needs="prior_positive", stated=_REPORT),
    _stated("gone_stated", "_without", needs="no_prior_positive"),
    _stated("new_stated", "", needs="prior_positive", stated=_REPORT),
    _stated("new_stated", "_without", needs="no_prior_positive"),
    _stated("lateral_only_stated", "", needs="frontal_positive", stated=_REPORT),
    _stated("lateral_only_stated", "_without", needs="no_lateral_positive"),
    # F1 of all findings, over the cases whose previous report is known
    _stated("prior_f1", "", needs="prior_positive", stated=_REPORT),
    _stated("prior_f1", "_without", needs="no_prior_positive"),
    _stated("prior_f1", "_itself", needs="prior_positive"),
    _stated(
        "prior_f1",
        "_united",
        needs="no_prior_positive",
        stated=pl.col("prior_positive").list.set_union("no_prior_positive"),
    ),
    by_case(
        "most_frequent_share",
        "Most frequent",
        _is_mode("hypothesis"),
        "share of the most frequent report",
        place="variety",
    ),
    by_case(
        "reference_most_frequent_share",
        "References' most frequent",
        _is_mode("reference"),
        "`most_frequent_share` of the references",
        place="variety",
    ),
    by_case(
        "repetition",
        "Repeats",
        pl.col("hypothesis_repetition"),
        _REPEATS,
        "lower",
        place="variety",
    ),
    by_case(
        "reference_repetition",
        "References repeat",
        pl.col("reference_repetition"),
        "`repetition` of the references",
        place="variety",
    ),
)
#: The scores by key.
SCORE_OF = {score.key: score for score in SCORES}


def score_of(key: str) -> Score:
    """Return the score with a key; any other key is a column of ``score.columns``, whose better
    values are unknown."""
    return SCORE_OF.get(key) or by_case(
        key, key, pl.col(key), "mean of your column", place="columns", interval=True
    )


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
    return {
        key: value for score in _scores_but(without) for key, value in score.of(context).items()
    }


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
        score.key: int(context.total(score.sums.per_case)[list(score.sums.counted)].sum())
        for score in scores_with_intervals(context.cases, columns, without)
        if score.sums and score.sums.counted
    }
