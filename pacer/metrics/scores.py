"""The registry of scores: one row a score. All that is known of a score beyond its row is how its module computes it.

The scores of a context, intervals, comparisons, studies, tables, the page and the table in ``docs/evaluation.md`` read
it. A new score is a row of :data:`SCORES`; one that is a mean over cases needs no more than :func:`by_case`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from pacer.commitments.anchor import POLARITIES
from pacer.core.contexts import CONTEXTS, availability
from pacer.metrics.cases import BLEU_ROWS, is_labelled
from pacer.metrics.clinical import CONVENTIONS, RATIOS, Convention, averaged, case_efficacy, label_rows
from pacer.metrics.commitments import commitment_scores, polarity_rows
from pacer.metrics.meteor import meteor, meteor_statistics
from pacer.metrics.nlg import bleu, bleu_statistics, language_scores
from pacer.metrics.source_use import KINDS, stated_rows, united_rows

#: Scores by key; ``None``: undefined.
Numbers = dict[str, float | None]
#: Table of the page that a score is a column of; empty: the score stands in ``scores.json`` alone.
Place = Literal["scores", "originals", "contents", "commitments", "variety", "columns", ""]
Direction = Literal["higher", "lower"]
#: How generation and extraction ended, by case; null: not known. ``fallback``: no report could be extracted, so the raw
#: text is used; ``unclosed``: the last ``<REPORT>`` has no ``</REPORT>``; ``empty_anchor``: the commitment names no
#: finding; ``truncated``: the text has as many tokens as the decoder allows, ``token_limit`` (including texts that
#: happen to end exactly there).
EXTRACTION = {
    "fallback": pl.col("fallback"),
    "unclosed": pl.col("unclosed"),
    "empty_anchor": pl.sum_horizontal(
        *(pl.col(f"anchor_{polarity}").list.len() for polarity in POLARITIES), ignore_nulls=False
    )
    == 0,
    "truncated": pl.col("tokens") >= pl.col("token_limit"),
}
#: Whether a report compares with an earlier examination, and whether its context has none: nothing can be "unchanged"
#: there, so such wording is invented. For reports of an unknown context it is not known what the model was given.
COMPARES = pl.col("hypothesis_wording").list.len() > 0
UNFOUNDED = pl.when(pl.col("context").is_in([name for name in CONTEXTS if not availability(name)[1]])).then(COMPARES)


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
    ``[..., k]`` -> score ``[...]``, NaN if undefined.
    """

    rows: Callable[[pl.DataFrame, Convention], np.ndarray]
    score: Callable[[np.ndarray, Convention], np.ndarray]


@dataclass(frozen=True)
class Score:
    """One score of a context.

    Attributes:
        key: its name in ``scores.json``. title: its heading in its own table.
        of: computes it from all rows of a context, perhaps with related scores; leaves out what does not apply.
        place: its table. better: which values are better; None: neither, or not known.
        sums: for its interval; None: it has none. tested: whether two runs are compared by it.
        needs: columns of the cases without which there are no sums.
        decimals: as it is printed. alone: its heading beside scores of other tables. short: that of studies.
    """

    key: str
    title: str
    of: Callable[[Context], Mapping[str, float | None]]
    place: Place = ""
    better: Direction | None = "higher"
    sums: Sums | None = None
    tested: bool = False
    needs: tuple[str, ...] = ()
    decimals: int = 3
    alone: str = ""
    short: str = ""

    @property
    def heading(self) -> str:
        """Its heading beside scores of other tables."""
        return self.alone or self.title

    @property
    def column(self) -> str:
        """Its heading in the table of a study."""
        return self.short or self.heading


def of_known(key: str, title: str, sums: Sums, *needs: str, **further: Any) -> Score:
    """Return a score whose ``sums`` are over the cases that have a value in all columns of ``needs``; left out if no
    case has."""

    def of(context: Context) -> Numbers:
        cases, rule = context.cases, CONVENTIONS[context.convention]
        if not set(needs) <= set(cases.columns) or cases.drop_nulls(needs).is_empty():
            return {}
        value = float(sums.score(sums.rows(cases, rule).sum(axis=0), rule))
        return {key: None if np.isnan(value) else value}

    return Score(key, title, of, sums=sums, needs=needs, **further)


def by_case(key: str, title: str, value: pl.Expr, *, interval: bool = True, **further: Any) -> Score:
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

    sums = Sums(lambda cases, _: mean_rows(numbers(cases)), lambda sums, _: mean(sums))
    return Score(key, title, of, sums=sums if interval else None, tested=interval, needs=tuple(columns), **further)


def share(key: str, title: str, value: pl.Expr, place: Place, better: Direction | None = None) -> Score:
    """Return the same without interval and test."""
    return by_case(key, title, value, interval=False, place=place, better=better)


def own_score(name: str) -> Score:
    """Return the score of a column of ``score.columns``, of which it is not known which values are better."""
    return by_case(name, name, pl.col(name), place="columns", better=None)


def mean_rows(values: np.ndarray) -> np.ndarray:
    """Return the statistics ``[n, 2]`` of a score that is the mean over the rows whose value is not NaN."""
    defined = ~np.isnan(values)
    return np.stack([np.where(defined, values, 0.0), defined], axis=1)


def mean(sums: np.ndarray) -> np.ndarray:
    """Return the mean from sums of :func:`mean_rows`; NaN without rows."""
    with np.errstate(invalid="ignore"):
        return sums[..., 0] / sums[..., 1]


def is_empty(side: str) -> pl.Expr:
    """Return whether a text consists only of blanks and periods."""
    return pl.col(side).str.strip_chars(" .") == ""


def extraction_counts(cases: pl.DataFrame) -> dict[str, int]:
    """Count :data:`EXTRACTION`; counts that the prediction lines do not allow are left out."""
    flags = cases.select(flag.cast(pl.UInt32).alias(what) for what, flag in EXTRACTION.items())
    return {flag.name: int(flag.sum()) for flag in flags if flag.count()}


def variety_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Return scores that expose a model that repeats itself: the shares of distinct reports and of the most frequent
    one, the same of the references, and the words in all reports per word in the references."""
    scores: dict[str, float | None] = {}
    for prefix, side in (("", "hypothesis"), ("reference_", "reference")):
        counts = Counter(cases[side])
        scores[f"{prefix}distinct_share"] = len(counts) / len(cases)
        scores[f"{prefix}most_frequent_share"] = max(counts.values()) / len(cases)
    written, expected = (sum(len(text.split()) for text in cases[side]) for side in ("hypothesis", "reference"))
    scores["length_ratio"] = written / expected if expected else None
    return scores


def _labels(context: Context) -> Numbers:
    if not is_labelled(context.cases):
        return {}
    values = case_efficacy(context.cases, context.convention)
    return {ratio: values[ratio] for ratio in RATIOS}


def _originals(context: Context) -> Numbers:
    if context.originals is None:
        return {}
    scores = language_scores(context.originals) | {"n": len(context.originals)}
    return {f"original_{key}": value for key, value in scores.items()}


def _of_cases(of: Callable[[pl.DataFrame], Numbers]) -> Callable[[Context], Numbers]:
    return lambda context: of(context.cases)


_language, _variety, _commitments = map(_of_cases, (language_scores, variety_scores, commitment_scores))


def _ratio(ratio: str) -> Sums:
    return Sums(label_rows, lambda sums, rule: averaged(sums, ratio, rule.averages[0]))


def _polarity(polarity: str) -> Sums:
    rows = lambda cases, _: polarity_rows(cases, polarity)  # noqa: E731
    return Sums(rows, lambda sums, _: averaged(sums, "f1"))


def _bleu_rows(cases: pl.DataFrame, rule: Convention) -> np.ndarray:
    if BLEU_ROWS in cases.columns:
        return np.array(cases[BLEU_ROWS].to_list())
    return bleu_statistics(cases["reference"].to_list(), cases["hypothesis"].to_list())


def _bleu(order: int) -> Sums:
    return Sums(_bleu_rows, lambda sums, _: bleu(sums, order))


_ROUGE = Sums(lambda cases, _: mean_rows(cases["rougeL"].to_numpy()), lambda sums, _: mean(sums))
_METEOR = Sums(lambda cases, _: meteor_statistics(cases["meteor_statistics"].to_list()), lambda sums, _: meteor(sums))
_LANGUAGE_SCORES = (
    *(
        Score(f"bleu{n}", f"BLEU-{n}", _language, "scores", sums=_bleu(n), tested=n == 4, short=f"B@{n}")
        for n in (1, 2, 3, 4)
    ),
    Score("rougeL", "ROUGE-L", _language, "scores", sums=_ROUGE, tested=True, short="R-L"),
    Score("meteor", "METEOR", _language, "scores", sums=_METEOR, tested=True, short="MTR"),
    Score("cider", "CIDEr", _language, "scores"),
)
_LABELS = ("hypothesis_labels",)


def _stated(kind: str, title: str, source: str, better: Direction | None = "higher") -> tuple[Score, Score]:
    """Return the share of the findings of a kind that reports affirm: with a source, and without it."""

    def one(key: str, title: str, *control: str) -> Score:
        sums = Sums(lambda cases, _: stated_rows(cases, kind, *control), lambda sums, _: mean(sums))
        return of_known(key, title, sums, KINDS[kind][0], *control, better=better)

    without = f"{kind}_stated_without_{source}"
    return one(f"{kind}_stated", title), one(without, f"{title}, without the source", f"no_{source}_positive")


def _united(key: str, title: str, *reports: str) -> Score:
    """Return F1 of what reports affirm together, over the cases with a previous report."""
    sums = Sums(lambda cases, _: united_rows(cases, *reports), lambda sums, _: averaged(sums, "f1"))
    return of_known(key, title, sums, "prior_positive", *reports)


SCORES: tuple[Score, ...] = (
    Score("precision", "P", _labels, "scores", sums=_ratio("precision"), needs=_LABELS),
    Score("recall", "R", _labels, "scores", sums=_ratio("recall"), needs=_LABELS),
    Score("f1", "F1", _labels, "scores", sums=_ratio("f1"), tested=True, needs=_LABELS, alone="CE F1", short="F1"),
    *(
        Score(f"report_{p}_f1", f"{p.capitalize()} F1", _commitments, "contents", sums=_polarity(p), tested=True)
        for p in ("positive", "negative")
    ),
    *_LANGUAGE_SCORES,
    Score("n", "n", lambda context: {"n": len(context.cases)}, "scores", None, decimals=0),
    *(
        replace(
            score,
            key=f"original_{score.key}",
            of=_originals,
            place="originals",
            sums=None,
            tested=False,
            alone=f"Original {score.title}",
            short=f"Orig. {score.short}",
        )
        for score in _LANGUAGE_SCORES[:-1]
    ),
    Score("original_cider", "CIDEr", _originals, alone="Original CIDEr"),
    Score("original_n", "n", _originals, "originals", None, decimals=0),
    Score("report_uncertain_f1", "Uncertain F1", _commitments, "contents"),
    share("prior_wording_rate", "Compares", COMPARES, "contents"),
    share("reference_prior_wording_rate", "References compare", pl.col("reference_wording").list.len() > 0, "contents"),
    share("unfounded_prior_wording_rate", "Compares without a prior", UNFOUNDED, "contents", "lower"),
    Score("report_agreement", "Same state", _commitments),
    Score("report_stated_agreement", "Same state, where stated", _commitments),
    Score("anchor_agreement", "Agreement", _commitments, "commitments"),
    Score("anchor_stated_agreement", "Stated", _commitments, "commitments"),
    *(
        Score(f"anchor_{p}_f1", f"{p.capitalize()} F1", _commitments, "commitments", alone=f"Commitment {p} F1")
        for p in ("positive", "negative", "uncertain")
    ),
    Score("report_follows_anchor", "Report follows", _commitments, "commitments"),
    *(Score(f"report_follows_{p}_f1", f"Report follows, {p} F1", _commitments) for p in POLARITIES),
    Score("report_covered_by_anchor", "Report covered", _commitments, "commitments"),
    by_case(
        "contradiction_rate",
        "Contradicts",
        pl.col("contradictions").list.len() > 0,
        place="commitments",
        better="lower",
    ),
    *_stated("persisting", "Persisting findings stated", "prior"),
    *_stated("gone", "Gone findings stated", "prior", "lower"),
    *_stated("new", "New findings stated", "prior"),
    *_stated("lateral_only", "Stated of what only the lateral view shows", "lateral"),
    _united("with_prior_f1", "F1 with the previous report", "report_positive"),
    _united("without_prior_f1", "F1 without it", "no_prior_positive"),
    _united("prior_itself_f1", "F1 of the previous report itself", "prior_positive"),
    _united("united_f1", "F1 of it united with the report without it", "prior_positive", "no_prior_positive"),
    share("gate", "Gate", pl.col("gate"), "commitments"),
    share("fallback_rate", "Fallback", EXTRACTION["fallback"], "commitments", "lower"),
    share("unclosed_rate", "Unclosed", EXTRACTION["unclosed"], "commitments", "lower"),
    share("truncated_rate", "Truncated", EXTRACTION["truncated"], "commitments", "lower"),
    share("empty_anchor_rate", "Commits nothing", EXTRACTION["empty_anchor"], "commitments"),
    share("empty_rate", "Empty", is_empty("hypothesis"), "commitments", "lower"),
    Score("distinct_share", "Distinct", _variety, "variety", None),
    Score("reference_distinct_share", "References distinct", _variety, "variety", None),
    Score("most_frequent_share", "Most frequent", _variety, "variety", None),
    Score("reference_most_frequent_share", "References' most frequent", _variety, "variety", None),
    share("copied_share", "In train", pl.col("hypothesis_copied"), "variety"),
    share("reference_copied_share", "References in train", pl.col("reference_copied"), "variety"),
    Score("length_ratio", "Length", _variety, "variety", None),
)
_BY_KEY = {score.key: score for score in SCORES}


def score_of(key: str) -> Score:
    """Return the score with a key; any other key is a column of ``score.columns``."""
    return _BY_KEY.get(key) or own_score(key)


def scores_at(place: Place) -> list[Score]:
    """Return the columns of one table."""
    return [score for score in SCORES if score.place == place]


def context_scores(context: Context) -> Numbers:
    """Return every score of a context that applies to it."""
    scores: Numbers = {}
    for of in dict.fromkeys(score.of for score in SCORES):
        scores |= of(context)
    return scores


def summed_scores(cases: pl.DataFrame, columns: Iterable[str] = ()) -> list[Score]:
    """Return the scores that have sums over these cases, with those of ``columns``, which are ``score.columns``'."""
    known = {name for name in cases.columns if cases[name].count()}
    registered = [score for score in SCORES if score.sums is not None and known.issuperset(score.needs)]
    return registered + [own_score(name) for name in columns]
