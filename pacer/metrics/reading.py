"""Probabilities of findings against the reference commitment: can they tell findings apart, and are they right?

The columns ``present`` and ``absent`` hold the probabilities of the 13 findings, in the vocabulary's order. A cell is a
finding of a record, and it is positive if the reference commitment affirms the finding. Shapes: n records.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from sklearn.metrics import roc_auc_score

from pacer.commitments.anchor import FINDINGS, POLARITIES
from pacer.metrics.clinical import ratios
from pacer.metrics.commitments import states

#: The threshold of F1 where the predictions have none.
MIDDLE = 0.5


def is_read(cases: pl.DataFrame) -> bool:
    """Return whether every case has probabilities."""
    return "present" in cases.columns and not cases.is_empty() and not cases["present"].null_count()


def reading_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Return F1 at the threshold of the predictions, AUROC (mean of the findings that have both kinds of cells) and
    Brier score of one context; empty without probabilities."""
    if not is_read(cases):
        return {}
    probability, positive = cells(cases)
    areas = [area for column in range(len(FINDINGS)) if (area := auroc(probability[:, column], positive[:, column]))]
    return {
        "read_f1": ratios(positive, probability >= _threshold(cases))["f1"],
        "read_auroc": float(np.mean(areas)) if areas else None,
        "read_brier": float(np.square(probability - positive).mean()),
    }


def auroc(probability: np.ndarray, positive: np.ndarray) -> float | None:
    """Return the area under the ROC curve; None without positive or without other cells."""
    return None if positive.all() or not positive.any() else float(roc_auc_score(positive, probability))


def cells(cases: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and whether the reference affirms, [n, 13] each."""
    return np.array(cases["present"].to_list()), states(cases, "reference") == POLARITIES.index("positive")


def _threshold(cases: pl.DataFrame) -> float:
    known = cases["threshold"].drop_nulls() if "threshold" in cases.columns else pl.Series([])
    return MIDDLE if known.is_empty() else known[0]
