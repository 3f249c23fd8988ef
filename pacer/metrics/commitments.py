"""Scores of what reports state: polarity, probabilities, attributes, and findings by source.

There are three comparisons of polarities: the generated with the reference commitment; the
generated report with its own commitment (does the model follow what it committed to?); and, for any
system, the generated report with the reference commitment. The rules that read the reports are
those that produced the training commitments.

The columns ``present`` and ``absent`` hold the probabilities of the 13 findings, in the
vocabulary's order. A cell is a finding of a record, and it is positive if the reference commitment
affirms the finding. Shapes: n records.

Of the findings that the previous report has, or only the lateral view shows, the share that reports
state is compared with that of reports for the same records without the source, the controls
``no_prior`` and ``no_lateral``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from pacer.core.anchor import FINDINGS, KINDS, Anchor, Attributes
from pacer.core.contexts import availability
from pacer.metrics.clinical import label_counts, ratios
from pacer.metrics.ledger import attribute_counts, compared, listed_findings, read_findings
from pacer.text.rules import sentence_attributes

#: Column of affirmed findings -> column of the texts in which the rules read them.
#: ``frontal_reference``: the reference of the same study in the context without the lateral view.
AFFIRMED_IN = {
    "prior_positive": "prior_report",
    "frontal_positive": "frontal_reference",
    "no_prior_positive": "no_prior_hypothesis",
    "no_lateral_positive": "no_lateral_hypothesis",
}
_PRIOR = pl.col("prior_positive")
_REFERENCE = pl.col("reference_positive")
_FRONTAL = pl.col("frontal_positive")


def lists(cases: pl.DataFrame, column: str) -> np.ndarray:
    """Return which findings the lists of a column have, ``[n, 13]``; none where it is null."""
    has = (pl.col(column).list.contains(one).fill_null(False).alias(one) for one in FINDINGS)
    return cases.select(has).to_numpy()


def is_read(cases: pl.DataFrame) -> bool:
    """Return whether every case has probabilities."""
    return "present" in cases.columns and not cases.is_empty() and not cases["present"].null_count()


def probability_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Return F1 at the threshold of the predictions (.5 if they have none), AUROC (mean of the
    findings that have both kinds of cells) and Brier score of one context; empty without
    probabilities."""
    if not is_read(cases):
        return {}
    # this import takes longer than scoring some reports without probabilities
    from sklearn.metrics import roc_auc_score

    probability, positive = cells(cases)
    both = positive.any(axis=0) & ~positive.all(axis=0)
    areas = [
        roc_auc_score(there, chance)
        for there, chance in zip(positive.T[both], probability.T[both], strict=True)
    ]
    known = cases["threshold"].drop_nulls() if "threshold" in cases.columns else []
    is_present = probability >= (known[0] if len(known) else 0.5)
    return {
        "read_f1": ratios(label_counts(positive, is_present))["f1"],
        "read_auroc": float(np.mean(areas)) if areas else None,
        "read_brier": float(np.square(probability - positive).mean()),
    }


def cells(cases: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and whether the reference affirms, [n, 13] each."""
    return np.array(cases["present"].to_list()), lists(cases, "reference_positive")


def side_switches(report: str) -> list[str]:
    """Return the findings that are on the left in one sentence, on the right in another, and on
    both sides in none."""
    sides = {
        finding: {" ".join(sorted(one.side)) for one in of}
        for finding, of in sentence_attributes(report).items()
    }
    return [
        name
        for name, known in sides.items()
        if {"left", "right"} <= known and "left right" not in known
    ]


def attribute_share(sums: np.ndarray, kind: str | None = None) -> np.ndarray:
    """Return the share that agrees from sums of :func:`attribute_counts`, ``[..., 6]`` ->
    ``[...]``; without a ``kind`` the mean over the kinds that the references name; NaN without
    any."""
    agreed, named = np.split(sums, 2, axis=-1)
    with np.errstate(invalid="ignore"):
        shares = agreed / named
        if kind is not None:
            return shares[..., KINDS.index(kind)]
        return np.where(named > 0, shares, 0).sum(axis=-1) / (named > 0).sum(axis=-1)


def true_attribute_counts(cases: pl.DataFrame) -> np.ndarray:
    """Return sums over a generated corpus: how often a report names an attribute of a present
    finding as the truth has it (``states``), and how often it names one. Only contexts with a
    previous report have a course."""
    stated = read_findings(cases["hypothesis"])
    without_prior = [not availability(context)[1] for context in cases["context"]]
    course = pl.when(~pl.lit(pl.Series(without_prior)).gather("row")).then("course")
    truth = listed_findings([_latent(states) for states in cases["states"]])
    rows = compared(stated.with_columns(course=course), truth)
    return attribute_counts(rows, len(cases)).sum(axis=0)


#: The sides of a finding that is on both.
_SIDES = {"bilateral": {"left", "right"}}


def _latent(states: Iterable[Mapping[str, Any]]) -> Anchor:
    """Return the true findings of a study with their attributes."""
    attributes = {}
    for state in states:
        words = [_SIDES.get(state[kind], {state[kind]}) - {None} for kind in KINDS]
        attributes[state["finding"]] = Attributes(*map(frozenset, words))
    affirmed = Anchor.of(positive=[state["finding"] for state in states]).positive
    return Anchor(affirmed, attributes=attributes)


class SourceKind(NamedTuple):
    """A kind of finding: its name, its findings from columns of affirmed findings, and which these
    are, in words; the ratio that is its score, recall by findings stated, and which values of it
    are better."""

    name: str
    findings: pl.Expr
    meaning: str
    ratio: Literal["recall", "f1"] = "recall"
    better: Literal["higher", "lower"] = "higher"


#: Kinds by the key of their score for reports with all sources.
SOURCE_KINDS = {
    "persisting_stated": SourceKind(
        "persisting",
        _PRIOR.list.set_intersection(_REFERENCE),
        "both the previous report and the reference",
    ),
    "gone_stated": SourceKind(
        "gone",
        _PRIOR.list.set_difference(_REFERENCE),
        "the previous report but not in the reference",
        better="lower",
    ),
    "new_stated": SourceKind(
        "new",
        _REFERENCE.list.set_difference(_PRIOR),
        "the reference but not in the previous report",
    ),
    "lateral_only_stated": SourceKind(
        "only on the lateral view",
        _REFERENCE.list.set_difference(_FRONTAL),
        "the reference but not in the frontal-only reference of the same study",
    ),
    "prior_f1": SourceKind(
        "F1 of all findings",
        pl.when(_PRIOR.is_not_null()).then(_REFERENCE),
        "where a previous report is known: of reports with it, of reports without it, of the "
        "previous report itself, and of the union of the last two",
        ratio="f1",
    ),
}
#: Reports by what they add to the key.
KINDS_OF_REPORT = {
    "": "with the source",
    "_without": "without it",
    "_itself": "the previous report itself",
    "_united": "the union of the previous report and reports without it",
}


def list_rows(cases: pl.DataFrame, right: pl.Expr, stated: pl.Expr, wanted: pl.Expr) -> np.ndarray:
    """Return by case, ``[n, 3]``, how many findings are hits, predicted and expected: those that
    are stated rightly, that are stated, and that should be. All are 0 where the first list is
    null."""
    counts = [
        pl.when(right.is_not_null()).then(one.list.len()).otherwise(0).cast(pl.Float64).alias(name)
        for name, one in (("right", right), ("stated", stated), ("wanted", wanted))
    ]
    return cases.select(counts).to_numpy()
