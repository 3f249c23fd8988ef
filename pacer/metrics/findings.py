"""Scores of what reports state, as the rules read it: findings affirmed, denied and uncertain,
their side, severity and course, comparisons without a previous report, and repetition.

All texts have been read before (:mod:`pacer.metrics.reading`); the statistics here count what the
columns list. The example has two records. Of the first, both texts affirm edema, and the report
also affirms a fracture; of the second, the report leaves out what the reference affirms.

>>> cases = pl.DataFrame(
...     {
...         "context": ["sn", "sn"],
...         "reference_positive": [["edema"], ["edema"]],
...         "report_positive": [["edema", "fracture"], []],
...         "exact_positive": [["edema"], []],
...         "attributes": [[1, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]],
...         "hypothesis_wording": [["unchanged"], []],
...         "hypothesis_repetition": [0.5, None],
...     },
...     schema_overrides={"hypothesis_repetition": pl.Float64},
... )
>>> list_rows(cases, "report_positive", "reference_positive")  # hits, stated, wanted
array([[1., 2., 1.],
       [0., 0., 1.]])
>>> from pacer.metrics.score_kinds import ContextCases, values_of
>>> values_of(SCORES, ContextCases(cases, "llm-rg4"))  # doctest: +NORMALIZE_WHITESPACE
{'report_positive_f1': 0.5, 'exact_f1': 0.5,
 'attributes_side': 1.0, 'attributes_severity': 0.0, 'attributes_course': None,
 'unfounded_prior_wording_rate': 0.5, 'repetition': 0.5}
"""

import numpy as np
import polars as pl

from pacer.core.attributes import KINDS
from pacer.core.contexts import contexts_within
from pacer.metrics.clinical import averaged
from pacer.metrics.conventions import Convention
from pacer.metrics.score_kinds import Score, Sums, mean_over_cases, mean_rows

_POLARITY = (
    "findings that the rules read in the report, against the reference commitment, over all records"
)
_EXACT = (
    "Positive F1 in which a finding counts as right only if the report has the sides that the "
    "reference names and, where it names severities or courses, one or more of them and no other"
)
_AGREES = (
    "agreement rate among findings affirmed in both texts for which the reference gives the "
    "attribute"
)
_UNFOUNDED = (
    "reports that make comparisons although no previous report was given; over contexts without one"
)
_REPEATS = (
    "share of a report's words that repeat the one to eight words just before them, or are in a "
    "sentence that occurred earlier; mean over reports"
)
#: The columns of :func:`attribute_rows` that count what the reference names.
_NAMED = {kind: len(KINDS) + place for place, kind in enumerate(KINDS)}


def list_rows(
    cases: pl.DataFrame, stated: str, wanted: str, right: str | None = None
) -> np.ndarray:
    """Return by case, ``[n, 3]``, how many findings are hits, predicted and expected, from the
    columns of those that are ``stated``, those that are ``wanted``, and those that are stated
    rightly (by default all that are in both). All are 0 where one of the lists is null.
    """
    both = pl.col(stated).list.set_intersection(wanted) if right is None else pl.col(right)
    counts = [
        pl.when(both.is_not_null()).then(one.list.len()).otherwise(0).cast(pl.Float64).alias(name)
        for name, one in (("right", both), ("stated", pl.col(stated)), ("wanted", pl.col(wanted)))
    ]
    return cases.select(counts).to_numpy()


def affirmed_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return the counts of affirmed findings, as in :func:`list_rows`."""
    return list_rows(cases, "report_positive", "reference_positive")


def denied_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return the counts of denied findings, as in :func:`list_rows`."""
    return list_rows(cases, "report_negative", "reference_negative")


def uncertain_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return the counts of uncertain findings, as in :func:`list_rows`."""
    return list_rows(cases, "report_uncertain", "reference_uncertain")


def exact_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return the counts of affirmed findings, as in :func:`list_rows`; those are right that the
    report describes as the reference does."""
    return list_rows(cases, "report_positive", "reference_positive", "exact_positive")


def f1_of_lists(sums: np.ndarray, _: Convention) -> np.ndarray:
    """Return F1 from sums of :func:`list_rows`."""
    return averaged(sums, "f1")


def attribute_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return by case how often side, severity and course agree, then how often the reference names
    them, ``[n, 6]``.
    """
    nothing = [0] * (2 * len(KINDS))
    return np.array([one or nothing for one in cases["attributes"].to_list()], dtype=float)


def attribute_share(sums: np.ndarray, kind: str | None = None) -> np.ndarray:
    """Return the share that agrees from sums of :func:`attribute_rows`, ``[..., 6]`` -> ``[...]``;
    without a ``kind`` the mean over the kinds that the references name; NaN without any.
    """
    agreed, named = np.split(sums, 2, axis=-1)
    with np.errstate(invalid="ignore"):
        shares = agreed / named
        if kind is not None:
            return shares[..., KINDS.index(kind)]
        return np.where(named > 0, shares, 0).sum(axis=-1) / (named > 0).sum(axis=-1)


def side_share(sums: np.ndarray, _: Convention) -> np.ndarray:
    """Return the share of the sides that agree, from sums of :func:`attribute_rows`."""
    return attribute_share(sums, "side")


def severity_share(sums: np.ndarray, _: Convention) -> np.ndarray:
    """Return the share of the severities that agree, from sums of :func:`attribute_rows`."""
    return attribute_share(sums, "severity")


def course_share(sums: np.ndarray, _: Convention) -> np.ndarray:
    """Return the share of the courses that agree, from sums of :func:`attribute_rows`."""
    return attribute_share(sums, "course")


def unfounded_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return by case whether the report compares with an earlier examination; only of contexts
    without a previous report (sn and mn), where nothing can be "unchanged". Reports of an unknown
    context may have had one.
    """
    without_prior = pl.col("context").is_in(contexts_within(lateral=True, prior=False))
    compares = pl.col("hypothesis_wording").list.len() > 0
    return mean_rows(cases.select(pl.when(without_prior).then(compares)).to_series())


def repetition_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return by case the share of its words that repeat; none for a report without words."""
    return mean_rows(cases["hypothesis_repetition"])


SCORES = (
    Score(
        key="report_positive_f1",
        title="Positive F1",
        meaning=_POLARITY,
        place="contents",
        needs=("report_positive", "reference_positive"),
        sums=Sums(affirmed_rows, f1_of_lists),
        tested=True,
    ),
    Score(
        key="report_negative_f1",
        title="Negative F1",
        meaning=_POLARITY,
        place="contents",
        needs=("report_negative", "reference_negative"),
        sums=Sums(denied_rows, f1_of_lists),
        tested=True,
    ),
    Score(
        key="report_uncertain_f1",
        title="Uncertain F1",
        meaning=_POLARITY,
        place="contents",
        needs=("report_uncertain", "reference_uncertain"),
        sums=Sums(uncertain_rows, f1_of_lists),
        interval=False,
    ),
    Score(
        key="exact_f1",
        title="Exact F1",
        meaning=_EXACT,
        place="contents",
        needs=("exact_positive", "report_positive", "reference_positive"),
        sums=Sums(exact_rows, f1_of_lists),
        tested=True,
    ),
    Score(
        key="attributes_side",
        title="Side agrees",
        meaning=f"side: {_AGREES}",
        place="contents",
        needs=("attributes",),
        sums=Sums(attribute_rows, side_share, counted=(_NAMED["side"],)),
        tested=True,
    ),
    Score(
        key="attributes_severity",
        title="Severity agrees",
        meaning=f"severity: {_AGREES}",
        place="contents",
        needs=("attributes",),
        sums=Sums(attribute_rows, severity_share, counted=(_NAMED["severity"],)),
        tested=True,
    ),
    Score(
        key="attributes_course",
        title="Course agrees",
        meaning=f"course: {_AGREES}",
        place="contents",
        needs=("attributes",),
        sums=Sums(attribute_rows, course_share, counted=(_NAMED["course"],)),
        tested=True,
    ),
    mean_over_cases(
        "unfounded_prior_wording_rate",
        "Compares without a prior",
        _UNFOUNDED,
        unfounded_rows,
        place="contents",
        needs=("hypothesis_wording", "context"),
        better="lower",
    ),
    mean_over_cases(
        "repetition",
        "Repeats",
        _REPEATS,
        repetition_rows,
        place="contents",
        needs=("hypothesis_repetition",),
        better="lower",
    ),
)
