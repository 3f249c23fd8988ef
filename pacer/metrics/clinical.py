"""Clinical efficacy: agreement of CheXbert labels between references and generated reports.

Paper, appendix "Evaluation Details": over 14 observations, positive and uncertain count as present, blank and
negative as absent; precision, recall and F1 are micro-averaged over cases and observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacer.core.errors import ConfigError, DataError
from pacer.metrics.chexbert import OBSERVATIONS, POSITIVE, UNCERTAIN

Score = float | None


@dataclass(frozen=True)
class Convention:
    """Which label classes count as present, and over which observations the micro-average runs."""

    present: tuple[int, ...]
    observations: tuple[str, ...]


_TOP_FIVE = ("Cardiomegaly", "Edema", "Consolidation", "Atelectasis", "Pleural Effusion")

CONVENTIONS: dict[str, Convention] = {
    "llm-rg4": Convention((POSITIVE, UNCERTAIN), OBSERVATIONS),
    "r2gen": Convention((POSITIVE,), OBSERVATIONS),
    "top5": Convention((POSITIVE, UNCERTAIN), _TOP_FIVE),
}


def clinical_efficacy(references: Any, hypotheses: Any, convention: str = "llm-rg4") -> dict[str, Any]:
    """Micro precision, recall and F1 of ``hypotheses`` against ``references``.

    A ratio without a denominator (no positive prediction, no positive reference, or neither) is undefined and
    given as ``None``, never as 0.

    Args:
        references: CheXbert classes of the references ``[n, 14]``, integers 0 to 3 (array, tensor or nested list).
        hypotheses: classes of the generated reports, row by row the same records.
        convention: a key of :data:`CONVENTIONS`.

    Returns:
        ``precision``, ``recall``, ``f1``, and ``per_label``: the same three and ``support`` (number of references
        with the observation present) for each observation.

    Raises:
        DataError: shapes differ or a class is not known. ConfigError: the convention is not known.
    """
    if convention not in CONVENTIONS:
        raise ConfigError(f"convention {convention!r} is not one of {', '.join(CONVENTIONS)}")
    rule = CONVENTIONS[convention]
    columns = [OBSERVATIONS.index(name) for name in rule.observations]
    truth = np.isin(as_labels(references, "references")[:, columns], rule.present)
    found = np.isin(as_labels(hypotheses, "hypotheses")[:, columns], rule.present)
    if truth.shape != found.shape:
        raise DataError(f"{len(truth)} reference rows and {len(found)} hypothesis rows; one row per record each")
    per_label = {
        name: precision_recall_f1(truth[:, index], found[:, index]) | {"support": int(truth[:, index].sum())}
        for index, name in enumerate(rule.observations)
    }
    return precision_recall_f1(truth, found) | {"per_label": per_label}


def precision_recall_f1(truth: np.ndarray, found: np.ndarray) -> dict[str, Score]:
    """Precision, recall and F1 over all cells of two Boolean arrays of one shape; ``None`` where undefined."""
    hits, predicted, present = int((truth & found).sum()), int(found.sum()), int(truth.sum())
    return {
        "precision": hits / predicted if predicted else None,
        "recall": hits / present if present else None,
        "f1": 2 * hits / (predicted + present) if predicted + present else None,
    }


def as_labels(labels: Any, what: str) -> np.ndarray:
    """Labels as an integer array ``[n, 14]``, checked: classes 0 to 3, "No Finding" 0 or 1.

    Raises:
        DataError: wrong shape or an unknown class.
    """
    array = np.asarray(labels.tolist() if hasattr(labels, "tolist") else labels)
    if array.size == 0 and isinstance(labels, Sequence):
        array = array.reshape(0, len(OBSERVATIONS)).astype(int)
    if array.ndim != 2 or array.shape[1] != len(OBSERVATIONS):
        raise DataError(f"{what}: expected labels of shape [n, {len(OBSERVATIONS)}], got {list(array.shape)}")
    if not np.issubdtype(array.dtype, np.integer):
        raise DataError(f"{what}: labels must be integers 0 (blank), 1 (positive), 2 (negative), 3 (uncertain), "
                        f"got {array.dtype}")
    if array.size and (array.min() < 0 or array.max() > UNCERTAIN or array[:, -1].max() > POSITIVE):
        raise DataError(f"{what}: labels must lie in 0..3 (No Finding: 0 or 1), got {array.min()}..{array.max()}")
    return array
