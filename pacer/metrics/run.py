"""Scores that only a run of the pipeline has: of its commitments, of the probabilities of findings,
of the gate, and of outputs without a report.

The columns ``present`` and ``absent`` hold the probabilities of the 13 findings, in the
vocabulary's order. A cell is a finding of a record, and it is positive if the reference commitment
affirms the finding. The example has two records; the second has no commitment, as its output could
not be read.

>>> cases = pl.DataFrame(
...     {
...         "reference_positive": [["edema"], ["fracture"]],
...         "anchor_positive": [["edema"], None],
...         "contradictions": [["pneumonia"], None],
...         "gate": [0.25, None],
...         "fallback": [False, True],
...         "present": [[float(name == "edema") for name in FINDINGS], [0.0] * len(FINDINGS)],
...     }
... )
>>> from pacer.metrics.score_kinds import ContextCases, values_of
>>> context = ContextCases(cases, "llm-rg4", threshold=0.4)
>>> values_of(SCORES, context)  # doctest: +NORMALIZE_WHITESPACE
{'anchor_positive_f1': 1.0, 'contradiction_rate': 1.0, 'read_f1': 0.6666666666666666,
 'read_auroc': 0.75, 'gate': 0.25, 'fallback_rate': 0.5}
"""

import numpy as np
import polars as pl

from pacer.core.findings import FINDINGS
from pacer.metrics.clinical import label_counts, ratios
from pacer.metrics.conventions import Convention
from pacer.metrics.findings import f1_of_lists, list_rows
from pacer.metrics.score_kinds import (
    ContextCases,
    Numbers,
    Score,
    Sums,
    mean_over_cases,
    mean_rows,
)

_OF_ANCHOR = (
    "generated commitment against the reference commitment, over records with a generated one"
)
_PRESENCE = "probabilities that findings are present (`findings`), against the reference commitment"


def committed_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return the counts of findings that the commitment affirms, as in
    :func:`~pacer.metrics.findings.list_rows`.
    """
    return list_rows(cases, "anchor_positive", "reference_positive")


def contradiction_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return by case whether the report contradicts its commitment."""
    return mean_rows(cases["contradictions"].list.len() > 0)


def gate_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return by case the mean gate of the calibrator."""
    return mean_rows(cases["gate"])


def fallback_rows(cases: pl.DataFrame, _: Convention) -> np.ndarray:
    """Return by case whether the output has no marked report, so that the raw text is scored."""
    return mean_rows(cases["fallback"])


def lists(cases: pl.DataFrame, column: str) -> np.ndarray:
    """Return which findings the lists of a column have, ``[n, 13]``; none where it is null."""
    has = (pl.col(column).list.contains(one).fill_null(False).alias(one) for one in FINDINGS)
    return cases.select(has).to_numpy()


def is_read(cases: pl.DataFrame) -> bool:
    """Return whether every case has probabilities."""
    return "present" in cases.columns and not cases.is_empty() and not cases["present"].null_count()


def cells(cases: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and whether the reference affirms, [n, 13] each."""
    return np.array(cases["present"].to_list()), lists(cases, "reference_positive")


def read_f1(context: ContextCases) -> Numbers:
    """Return F1 of the findings whose probability is at least the threshold."""
    if not is_read(context.cases):
        return {}
    probability, positive = cells(context.cases)
    counts = label_counts(positive, probability >= context.threshold)
    return {"read_f1": ratios(counts)["f1"]}


def read_auroc(context: ContextCases) -> Numbers:
    """Return the area under the curve, the mean of the findings that have both kinds of cells."""
    if not is_read(context.cases):
        return {}
    # this import takes longer than scoring some reports without probabilities
    from sklearn.metrics import roc_auc_score

    probability, positive = cells(context.cases)
    both = positive.any(axis=0) & ~positive.all(axis=0)
    areas = [
        roc_auc_score(there, chance)
        for there, chance in zip(positive.T[both], probability.T[both], strict=True)
    ]
    return {"read_auroc": float(np.mean(areas)) if areas else None}


SCORES = (
    Score(
        key="anchor_positive_f1",
        title="Positive F1",
        meaning=_OF_ANCHOR,
        place="commitments",
        needs=("anchor_positive", "reference_positive"),
        sums=Sums(committed_rows, f1_of_lists),
        interval=False,
        beside="Commitment positive F1",
    ),
    mean_over_cases(
        "contradiction_rate",
        "Contradicts",
        "reports that state the opposite of their commitment",
        contradiction_rows,
        place="commitments",
        needs=("contradictions",),
        better="lower",
        tested=True,
    ),
    Score(
        key="read_f1",
        title="Read F1",
        meaning=f"{_PRESENCE}; a finding counts as present if its probability is at least "
        "`decode.threshold`",
        place="commitments",
        needs=("present", "reference_positive"),
        compute=read_f1,
    ),
    Score(
        key="read_auroc",
        title="Read AUROC",
        meaning=f"{_PRESENCE}; AUROC of each finding, averaged over the findings",
        place="commitments",
        needs=("present", "reference_positive"),
        compute=read_auroc,
    ),
    mean_over_cases(
        "gate",
        "Gate",
        "mean gate of the calibrator",
        gate_rows,
        place="commitments",
        needs=("gate",),
        better=None,
    ),
    mean_over_cases(
        "fallback_rate",
        "Fallback",
        "no parsable report (raw text scored)",
        fallback_rows,
        place="commitments",
        needs=("fallback",),
        better="lower",
    ),
)
