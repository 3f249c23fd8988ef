"""Use of the previous report and of the lateral view, by kind of finding.

The rules read the findings that each text affirms. The share of a kind that reports state is compared with that of
reports for the same records without the source, the controls ``no_prior`` and ``no_lateral``.
"""

from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from pacer.commitments.rules.extract import extract_anchor

#: Column of affirmed findings -> column of the texts in which the rules read them. ``frontal_report``: the reference of
#: the same study in the context without the lateral view.
TEXTS = {
    "prior_positive": "prior_report",
    "frontal_positive": "frontal_report",
    "no_prior_positive": "no_prior_hypothesis",
    "no_lateral_positive": "no_lateral_hypothesis",
}
_PRIOR, _REFERENCE, _FRONTAL = map(pl.col, ("prior_positive", "reference_positive", "frontal_positive"))


class Kind(NamedTuple):
    """A kind of finding: its name, its findings from columns of affirmed findings, and which these are, in words; the
    ratio that is its score, recall by findings stated, and which values of it are better."""

    name: str
    findings: pl.Expr
    meaning: str
    ratio: Literal["recall", "f1"] = "recall"
    better: Literal["higher", "lower"] = "higher"


#: Kinds by the key of their score for reports with all sources.
KINDS = {
    "persisting_stated": Kind(
        "persisting", _PRIOR.list.set_intersection(_REFERENCE), "of previous report and reference"
    ),
    "gone_stated": Kind(
        "gone", _PRIOR.list.set_difference(_REFERENCE), "of the previous report, not of the reference", better="lower"
    ),
    "new_stated": Kind("new", _REFERENCE.list.set_difference(_PRIOR), "of the reference, not of the previous report"),
    "lateral_only_stated": Kind(
        "only on the lateral view",
        _REFERENCE.list.set_difference(_FRONTAL),
        "in the reference, but not in that of the same study without the lateral view (none if a study has one target)",
    ),
    "prior_f1": Kind(
        "F1 of all findings",
        pl.when(_PRIOR.is_not_null()).then(_REFERENCE),
        "where a previous report is known: of reports with it, of reports without it, of the previous report itself, "
        "and of this united with reports without it",
        ratio="f1",
    ),
}
#: Reports by what they add to the key.
REPORTS = {
    "": "with the source",
    "_without": "without it",
    "_itself": "the previous report itself",
    "_united": "the previous report united with reports without it",
}


def affirmed(cases: pl.DataFrame, column: str) -> list[tuple[str, ...] | None]:
    """Return the findings of a column of :data:`TEXTS`; None where there is no text."""
    texts = cases[TEXTS[column]] if TEXTS[column] in cases.columns else [None] * len(cases)
    return [None if text is None else extract_anchor(text).positive for text in texts]


def stated_rows(cases: pl.DataFrame, kind: Kind, stated: pl.Expr) -> np.ndarray:
    """Return by case, ``[n, 3]``, the findings of a kind that are stated, all that are stated, and all of the kind; 0
    where one of the lists is null."""
    both = kind.findings.list.set_intersection(stated)
    counts = [pl.when(both.is_not_null()).then(one.list.len()).otherwise(0) for one in (both, stated, kind.findings)]
    return np.stack([cases.select(count).to_series().to_numpy() for count in counts], axis=1).astype(float)
