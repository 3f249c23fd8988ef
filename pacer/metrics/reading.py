"""Probabilities of findings against the reference commitment: can they tell findings apart, and are they right?

The columns ``present`` and ``absent`` hold the probabilities of the 13 findings, in the vocabulary's order. A cell is a
finding of a record, and it is positive if the reference commitment affirms the finding. Shapes: n records.
"""

import numpy as np
import polars as pl

from pacer.commitments.anchor import POLARITIES
from pacer.metrics.clinical import ratios
from pacer.metrics.commitments import states


def is_read(cases: pl.DataFrame) -> bool:
    """Return whether every case has probabilities."""
    return "present" in cases.columns and not cases.is_empty() and not cases["present"].null_count()


def reading_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Return F1 at the threshold of the predictions (.5 if they have none), AUROC (mean of the findings that have both
    kinds of cells) and Brier score of one context; empty without probabilities."""
    if not is_read(cases):
        return {}
    from sklearn.metrics import roc_auc_score  # its import takes longer than scoring some reports without probabilities

    probability, positive = cells(cases)
    both = positive.any(axis=0) & ~positive.all(axis=0)
    areas = [roc_auc_score(there, chance) for there, chance in zip(positive.T[both], probability.T[both], strict=True)]
    known = cases["threshold"].drop_nulls() if "threshold" in cases.columns else []
    return {
        "read_f1": ratios(positive, probability >= (known[0] if len(known) else 0.5))["f1"],
        "read_auroc": float(np.mean(areas)) if areas else None,
        "read_brier": float(np.square(probability - positive).mean()),
    }


def cells(cases: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and whether the reference affirms, [n, 13] each."""
    return np.array(cases["present"].to_list()), states(cases, "reference") == POLARITIES.index("positive")
