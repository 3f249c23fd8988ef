"""The registry of scores: one row a score. All that is known of a score beyond its row is how its
module computes it.

The scores of a context, the columns of ``cases.parquet`` that they need, intervals, comparisons,
studies, tables, the page, ``signature.json`` and the table in ``docs/evaluation.md`` read it. A new
score is a row of :data:`SCORES`, with its function and its test; one that is a mean over cases
needs no more than :func:`by_case`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from pacer.core.contexts import CONTEXTS, availability
from pacer.core.errors import ConfigError
from pacer.data.wording import prior_wording
from pacer.metrics import commitments
from pacer.metrics.clinical import CONVENTIONS, Convention, averaged, label_rows
from pacer.metrics.commitments import KINDS as ATTRIBUTES
from pacer.metrics.commitments import REPORTS, SOURCE_KINDS, reading_scores, stated_rows
from pacer.metrics.nlg import bleu, bleu_statistics, cider, meteor, meteor_statistics, repetition
from pacer.metrics.score_kinds import (
    Column,
    Context,
    Direction,
    Numbers,
    Place,
    Score,
    Sums,
    by_case,
    mean,
    mean_rows,
)

_COUNTS, _WORDS = pl.List(pl.Int64), pl.List(pl.String)
#: Whether the context of a case has no previous report: nothing can be "unchanged" there, so such
#: wording is invented. For reports of an unknown context it is not known what the model was given.
_WITHOUT_PRIOR = pl.col("context").is_in([name for name in CONTEXTS if not availability(name)[1]])


def _of_originals(score: Score) -> Callable[[Context], Numbers]:
    """Return the score of the cases that have original findings, with these as references."""
    return lambda context: {
        f"original_{key}": value
        for key, value in (score.of(context.originals) if context.originals else {}).items()
    }


def _reading(key: str) -> Callable[[Context], Numbers]:
    return lambda context: {
        one: value for one, value in reading_scores(context.cases).items() if one == key
    }


def _ratio(ratio: str) -> Sums:
    return Sums(label_rows, lambda sums, rule: averaged(sums, ratio, rule.averages[0]))


def _polarity(polarity: str, side: str) -> Sums:
    return Sums(
        lambda cases, _: commitments.polarity_rows(cases, polarity, side),
        lambda sums, _: averaged(sums, "f1"),
    )


def _bleu_rows(cases: pl.DataFrame, rule: Convention) -> np.ndarray:
    if "bleu_statistics" in cases.columns:
        return np.array(cases["bleu_statistics"].to_list())
    return bleu_statistics(cases["reference"].to_list(), cases["hypothesis"].to_list())


def _bleu(order: int) -> Sums:
    return Sums(_bleu_rows, lambda sums, _: bleu(sums, order))


def _compares(side: str) -> pl.Expr:
    """Return whether a text compares with an earlier examination."""
    return pl.col(f"{side}_wording").list.len() > 0


def _of_text(
    name: str, function: Callable[[str], Any], kind: pl.DataType = _WORDS
) -> Callable[[str], Column]:
    """Return the column of a function of the text of a ``side``, ``{side}_{name}``."""
    return lambda side: Column(f"{side}_{name}", kind, lambda cases: map(function, cases[side]))


def _stated(key: str, suffix: str, needs: str, stated: pl.Expr | None = None) -> Score:
    """Return the score of a kind of finding for the lists ``stated``, by default those of the
    column ``needs``."""
    kind, lists = SOURCE_KINDS[key], pl.col(needs) if stated is None else stated
    of_kind = (2,) if kind.ratio == "recall" else ()
    sums = Sums(
        lambda cases, _: stated_rows(cases, kind, lists),
        lambda sums, _: averaged(sums, kind.ratio),
        of_kind,
    )
    column = Column(needs, _WORDS, lambda cases: commitments.affirmed(cases, needs))
    measure = (
        "F1" if kind.ratio == "f1" else "share that reports state, with the source and without it,"
    )
    title, meaning = (
        f"{kind.name}, {REPORTS[suffix]}",
        f"{measure} of affirmed findings {kind.meaning}",
    )
    return Score(
        key + suffix, title, meaning, sums, better=kind.better, needs=needs, case_column=column
    )


def _attribute(kind: str | None, chance: bool = False) -> Score:
    """Return the score of a kind of attribute (None: mean of all), by ``chance`` with other
    patients' sources. It is a share of sums over a column of counts, and is left out if no case has
    them."""
    column = Column("attributes", _COUNTS, commitments.attribute_counts)
    key, title = (
        (f"attributes_{kind}", f"{kind} agrees".capitalize())
        if kind
        else ("attributes", "Attributes")
    )
    if chance:
        counts = partial(commitments.attribute_counts, reports="another_patient_hypothesis")
        column = Column("chance_attributes", _COUNTS, counts)
        key, title = f"{key}_chance", f"{(kind or key).capitalize()} by chance"
    width = 2 * len(ATTRIBUTES)

    def rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
        return np.array(
            [counts or [0] * width for counts in cases[column.name].to_list()], dtype=float
        )

    named = tuple(
        len(ATTRIBUTES) + ATTRIBUTES.index(one) for one in ([kind] if kind else ATTRIBUTES)
    )
    return Score(
        key,
        title,
        f"{kind or 'mean of side, severity and course'}: {_ATTRIBUTES}{_CHANCE * chance}",
        Sums(rows, lambda sums, _: commitments.attribute_share(sums, kind), named),
        place="contents",
        better=None if chance else "higher",
        tested=not chance,
        needs=column.name,
        case_column=column,
    )


def _beside_references(
    key: str,
    titles: tuple[str, str],
    value: Callable[[str], pl.Expr],
    meaning: str,
    column: Callable[[str], Column] | None = None,
    better: Direction | None = None,
) -> Iterator[Score]:
    """Yield the mean over reports of a value of one ``side``, and the value for the references."""
    sides = (
        ("hypothesis", key, meaning, better),
        ("reference", f"reference_{key}", f"`{key}` of the references", None),
    )
    for title, (side, name, words, direction) in zip(titles, sides, strict=True):
        yield by_case(
            name, title, value(side), words, direction, case_column=column and column(side)
        )


def _at(place: Place, *scores: Score) -> Iterable[Score]:
    """Put scores into one table."""
    return (replace(score, place=place) for score in scores)


#: Rows one after the other in memory are added in their order, as ROUGE-L's mean always was.
_ROUGE = Sums(
    lambda cases, _: np.ascontiguousarray(mean_rows(cases["rougeL"].to_numpy())),
    lambda sums, _: mean(sums),
)
_METEOR = Sums(
    lambda cases, _: meteor_statistics(cases["meteor_statistics"].to_list()),
    lambda sums, _: meteor(sums),
)
_INVENTED = pl.when(_WITHOUT_PRIOR).then(_compares("hypothesis"))
_REPORT = pl.col("report_positive")
_UNITED = pl.col("prior_positive").list.set_union("no_prior_positive")
_LABELS = "hypothesis_labels"
_EFFICACY_MEANING = "CheXbert's labels, report against reference, by `score.convention`"
#: A number of records, which has no mean over contexts.
_COUNT = Score(
    "n", "n", "records", compute=lambda context: {"n": len(context.cases)}, better=None, decimals=0
)
_BLEU = "corpus level, closest reference length (pycocoevalcap)"
_ROUGE_MEANING = "F with beta 1.2, tokens split at single spaces, mean over reports (pycocoevalcap)"
_METEOR_MEANING = "METEOR 1.5, -l en -norm, its own corpus aggregate (pycocoevalcap)"
_CIDER = (
    "CIDEr-D, document frequencies from the context's references, mean over reports (pycocoevalcap)"
)
_OF_REPORT = (
    "findings that the rules read in the report, against the reference commitment, over all records"
)
_OF_ANCHOR = (
    "generated commitment against the reference commitment, over records with a generated one"
)
_ATTRIBUTES = (
    "of findings affirmed in both texts whose attribute the reference states, the share "
    "where it agrees"
)
_CHANCE = ", in reports written with another patient's sources (control another_patient)"
_SWITCHES = (
    "reports with a finding on the left in one sentence and on the right in another, but "
    "on both sides in none"
)
_PRESENCE = "probabilities that findings are present (`findings`), against the reference commitment"
_COMPARES = "reports that compare with an earlier examination (rules of `pacer/data/wording.yaml`)"
_UNFOUNDED = (
    "reports that make comparisons although no previous report was given; over contexts without one"
)
_REPEATS = (
    "words in an immediate repeat of one to eight words, or in a sentence that occurred "
    "earlier; mean over reports"
)

#: The scores of words in common.
LANGUAGE = (
    *(
        Score(
            f"bleu{n}",
            f"BLEU-{n}",
            _BLEU,
            _bleu(n),
            tested=n == 4,
            needs="reference",
            short=f"B@{n}",
        )
        for n in range(1, 5)
    ),
    Score("rougeL", "ROUGE-L", _ROUGE_MEANING, _ROUGE, tested=True, needs="rougeL", short="R-L"),
    Score(
        "meteor",
        "METEOR",
        _METEOR_MEANING,
        _METEOR,
        tested=True,
        needs="meteor_statistics",
        short="MTR",
    ),
    Score("cider", "CIDEr", _CIDER, compute=lambda context: {"cider": cider(context.cases)}),
)
#: The scores that the paper also reports against original findings.
_ORIGINAL_SCORES = [
    replace(
        score,
        key=f"original_{score.key}",
        compute=_of_originals(score),
        meaning="the same score against the original findings",
        sums=None,
        tested=False,
        beside=f"Original {score.title}",
        short=f"Orig. {score.short}",
    )
    for score in LANGUAGE
    if score.key in ("bleu1", "bleu4", "rougeL")
]

SCORES: tuple[Score, ...] = (
    *_at(
        "scores",
        Score("precision", "P", _EFFICACY_MEANING, _ratio("precision"), needs=_LABELS),
        Score("recall", "R", _EFFICACY_MEANING, _ratio("recall"), needs=_LABELS),
        Score(
            "f1",
            "F1",
            _EFFICACY_MEANING,
            _ratio("f1"),
            tested=True,
            needs=_LABELS,
            beside="CE F1",
            short="F1",
        ),
    ),
    *_at(
        "contents",
        *(
            Score(
                f"report_{p}_f1",
                f"{p.capitalize()} F1",
                _OF_REPORT,
                _polarity(p, "report"),
                tested=True,
            )
            for p in ("positive", "negative")
        ),
    ),
    *_at("scores", *LANGUAGE, _COUNT),
    *_at(
        "originals",
        *_ORIGINAL_SCORES,
        replace(
            _COUNT,
            key="original_n",
            compute=_of_originals(_COUNT),
            meaning="records with original findings",
        ),
    ),
    *_at(
        "contents",
        Score(
            "report_uncertain_f1",
            "Uncertain F1",
            _OF_REPORT,
            _polarity("uncertain", "report"),
            interval=False,
        ),
        *_beside_references(
            *("prior_wording_rate", ("Compares", "References compare"), _compares, _COMPARES),
            _of_text("wording", lambda text: list(prior_wording(text))),
        ),
        by_case(
            "unfounded_prior_wording_rate",
            "Compares without a prior",
            _INVENTED,
            _UNFOUNDED,
            "lower",
        ),
        *_beside_references(
            *("side_switch_rate", ("Switches sides", "References switch")),
            lambda side: pl.col(f"{side}_side_switches").list.len() > 0,
            *(_SWITCHES, _of_text("side_switches", commitments.side_switches), "lower"),
        ),
    ),
    *(_attribute(kind, chance) for kind in (None, *ATTRIBUTES) for chance in (False, True)),
    *_at(
        "commitments",
        Score(
            "anchor_positive_f1",
            "Positive F1",
            _OF_ANCHOR,
            _polarity("positive", "anchor"),
            interval=False,
            needs="anchor_positive",
            beside="Commitment positive F1",
        ),
        *_beside_references(
            *("affirms_nothing", ("Lists nothing", "References list nothing")),
            lambda side: (
                pl.col(
                    "anchor_positive" if side == "hypothesis" else "reference_positive"
                ).list.len()
                == 0
            ),
            "commitments that affirm no finding",
        ),
        by_case(
            "contradiction_rate",
            "Contradicts",
            pl.col("contradictions").list.len() > 0,
            "reports that state the opposite of their commitment",
            "lower",
            interval=True,
            case_column=Column("contradictions", _WORDS, commitments.contradictions),
        ),
        Score(
            "read_f1",
            "Read F1",
            f"{_PRESENCE}; present from `decode.threshold` on",
            compute=_reading("read_f1"),
        ),
        Score(
            "read_auroc",
            "Read AUROC",
            f"{_PRESENCE}; mean of the findings",
            compute=_reading("read_auroc"),
        ),
        Score(
            "read_brier",
            "Read Brier",
            f"{_PRESENCE}; Brier score",
            compute=_reading("read_brier"),
            better="lower",
        ),
        by_case("gate", "Gate", pl.col("gate"), "mean gate of the calibrator"),
        by_case(
            "fallback_rate",
            "Fallback",
            pl.col("fallback"),
            "no parsable report (raw text scored)",
            "lower",
        ),
    ),
    *(
        _stated(key, suffix, needs, stated)
        for key in ("persisting_stated", "gone_stated", "new_stated")
        for suffix, needs, stated in (
            ("", "prior_positive", _REPORT),
            ("_without", "no_prior_positive", None),
        )
    ),
    _stated("lateral_only_stated", "", "frontal_positive", _REPORT),
    _stated("lateral_only_stated", "_without", "no_lateral_positive"),
    _stated("prior_f1", "", "prior_positive", _REPORT),
    _stated("prior_f1", "_without", "no_prior_positive"),
    _stated("prior_f1", "_itself", "prior_positive"),
    _stated("prior_f1", "_united", "no_prior_positive", _UNITED),
    *_at(
        "variety",
        *_beside_references(
            *("most_frequent_share", ("Most frequent", "References' most frequent")),
            lambda side: pl.col(side) == pl.col(side).mode().first(),  # any one of several
            "share of the most frequent report",
        ),
        *_beside_references(
            *(
                "repetition",
                ("Repeats", "References repeat"),
                lambda side: pl.col(f"{side}_repetition"),
            ),
            *(_REPEATS, _of_text("repetition", repetition, pl.Float64()), "lower"),
        ),
    ),
)
#: The scores by key.
SCORE_OF = {score.key: score for score in SCORES}
#: Columns of ``cases.parquet`` that are there for scores, by name.
CASE_COLUMNS = {score.case_column.name: score.case_column for score in SCORES if score.case_column}


def score_of(key: str) -> Score:
    """Return the score with a key; any other key is a column of ``score.columns``, whose better
    values are unknown."""
    return SCORE_OF.get(key) or by_case(
        key, key, pl.col(key), "mean of your column", place="columns", interval=True
    )


def scores_at(place: Place) -> list[Score]:
    """Return the columns of one table."""
    return [score for score in SCORES if score.place == place]


def check_keys(keys: Iterable[str]) -> None:
    """Raise a :class:`~pacer.core.errors.ConfigError` if a key is not in the registry."""
    if unknown := [key for key in keys if key not in SCORE_OF or key == "n"]:
        raise ConfigError(
            f"without (--without): unknown score {unknown[0]}; expected one of "
            f"{', '.join(SCORE_OF)}"
        )


def with_case_columns(cases: pl.DataFrame) -> pl.DataFrame:
    """Add the columns that scores are computed from to rows of texts and of what the rules read in
    them."""
    columns = CASE_COLUMNS.values()
    return cases.with_columns(
        pl.Series(name, list(values(cases)), dtype=kind) for name, kind, values in columns
    )


def context_scores(context: Context, without: Collection[str] = ()) -> Numbers:
    """Return every score of a context that applies to it, but those ``without`` and their twins
    against originals."""
    wanted = [score for score in SCORES if score.key.removeprefix("original_") not in without]
    return {key: value for score in wanted for key, value in score.of(context).items()}


def summed_scores(cases: pl.DataFrame, columns: Iterable[str] = ()) -> list[Score]:
    """Return the scores that have sums over these cases, with those of ``columns``, which are
    ``score.columns``'."""
    registered = [
        s
        for s in SCORES
        if s.sums and s.interval and s.needs in cases.columns and cases[s.needs].count()
    ]
    return registered + list(map(score_of, columns))


def context_counts(cases: pl.DataFrame, convention: str, columns: Iterable[str]) -> dict[str, int]:
    """Return how many findings, or records, of a context each score counts that says so;
    ``columns``: as above."""
    sums = {score.key: score.sums for score in summed_scores(cases, columns)}
    rule = CONVENTIONS[convention]
    return {
        key: int(one.rows(cases, rule)[:, one.counted].sum())
        for key, one in sums.items()
        if one and one.counted
    }
