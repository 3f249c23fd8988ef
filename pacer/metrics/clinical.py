"""Clinical efficacy: agreement of CheXbert labels between references and generated reports.

Paper, appendix "Clinical and Language Metrics": over 14 observations, positive and uncertain count as present, blank
and negative as absent; precision, recall and F1 are micro-averaged over cases and observations. Other groups use other
conventions: :mod:`pacer.metrics.conventions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, get_args

import numpy as np
from sklearn.metrics import precision_recall_fscore_support

from pacer.core.errors import ConfigError, DataError
from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.metrics.conventions import CONVENTIONS, Average, Convention

Score = float | None

Ratio = Literal["precision", "recall", "f1"]
#: The three ratios, in the order of reporting.
RATIOS: tuple[Ratio, ...] = get_args(Ratio)


class Efficacy(TypedDict):
    """``precision``, ``recall``, ``f1``: the convention's headline average; ``averages``: every average that the
    convention reports, by name (``f1_macro``); ``n``: number of rows counted."""

    precision: Score
    recall: Score
    f1: Score
    averages: dict[str, Score]
    n: int


def clinical_efficacy(
    references: Any, hypotheses: Any, convention: str = "llm-rg4", studies: Sequence[str | None] | None = None
) -> Efficacy:
    """Return precision, recall and F1 of ``hypotheses`` against ``references`` under a named convention.

    A ratio without a denominator (no positive prediction, no positive reference, or neither) is undefined: it is
    ``None``, never 0. In an average over observations or records it counts as 0, as in the conventions' own code.

    Args:
        references: CheXbert classes of the references ``[n, 14]``, integers 0 to 3 (array, tensor or nested list).
        hypotheses: classes of the generated reports, for the same records in the same order.
        convention: a key of :data:`~pacer.metrics.conventions.CONVENTIONS`.
        studies: study of each row, for conventions that keep only the first row of a study. A row without a known study
            (``None`` or blank) counts as its own study; by default every row does.

    Raises:
        DataError: shapes differ or a class is unknown. ConfigError: the convention is unknown.
    """
    if convention not in CONVENTIONS:
        raise ConfigError(f"convention {convention!r} is not one of {', '.join(CONVENTIONS)}")
    rule = CONVENTIONS[convention]
    truth, predicted = (present(as_labels(labels), rule) for labels in (references, hypotheses))
    if len(truth) != len(predicted) or (studies is not None and len(studies) != len(truth)):
        lengths = f"{len(truth)} reference rows, {len(predicted)} hypothesis rows"
        raise DataError(f"{lengths}, {'no' if studies is None else len(studies)} studies; one per record each")
    if rule.duplicates == "first" and studies is not None:
        known = [study if study is not None and study.strip() else row for row, study in enumerate(studies)]
        first = sorted({study: row for row, study in reversed(list(enumerate(known)))}.values())
        truth, predicted = truth[first], predicted[first]
    averages = {
        f"{name}_{average}": value
        for average in rule.averages
        for name, value in ratios(truth, predicted, average).items()
    }
    precision, recall, f1 = (averages[f"{name}_{rule.averages[0]}"] for name in RATIOS)
    return Efficacy(precision=precision, recall=recall, f1=f1, averages=averages, n=len(truth))


#: scikit-learn's names of the averages.
_AVERAGES: dict[Average, str] = {"micro": "micro", "macro": "macro", "weighted": "weighted", "example": "samples"}


def ratios(truth: np.ndarray, predicted: np.ndarray, average: Average = "micro") -> dict[str, Score]:
    """Return precision, recall and F1 of two Boolean arrays ``[n, labels]``. Undefined values are ``None``: a micro
    ratio without a denominator, or a weighted average if no label has weight."""
    if average == "weighted" and not truth.any():
        return dict.fromkeys(RATIOS)
    values = precision_recall_fscore_support(
        truth, predicted, average=_AVERAGES[average], zero_division=np.nan if average == "micro" else 0.0
    )
    return {name: None if np.isnan(value) else float(value) for name, value in zip(RATIOS, values[:3], strict=True)}


def present(labels: np.ndarray, rule: Convention) -> np.ndarray:
    """Return which observations of a convention are present, Boolean ``[n, observations]``, from labels ``[n, 14]``."""
    return np.isin(labels[:, [OBSERVATIONS.index(name) for name in rule.observations]], rule.present)


def plain_mean(values: Sequence[Score]) -> Score:
    """Return the mean; ``None`` if there are no values or any value is undefined."""
    defined = [value for value in values if value is not None]
    return sum(defined) / len(values) if values and len(defined) == len(values) else None


def as_labels(labels: Any) -> np.ndarray:
    """Return labels as an integer array ``[n, 14]``, after checking them: classes 0 to 3, "No Finding" 0 or 1.

    Raises:
        DataError: the shape is wrong or a class is unknown.
    """
    array = np.asarray(labels.tolist() if hasattr(labels, "tolist") else labels)
    if array.ndim != 2 or array.shape[1] != len(OBSERVATIONS) or not np.issubdtype(array.dtype, np.integer):
        expected = f"integers [n, {len(OBSERVATIONS)}]: 0 blank, 1 positive, 2 negative, 3 uncertain"
        raise DataError(f"labels must be {expected}; got {array.dtype} {list(array.shape)}")
    if array.size and (array.min() < 0 or array.max() > UNCERTAIN or array[:, -1].max() > POSITIVE):
        raise DataError(f"labels must lie in 0..3 (No Finding: 0 or 1), got {array.min()}..{array.max()}")
    return array


# Sums over cases, from which any resample can be scored


def label_counts(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return hits, predictions and references for each observation, ``[n, 3 * observations]``, from Boolean arrays
    ``[n, observations]``."""
    return np.concatenate([truth & predicted, predicted, truth], axis=1).astype(float)


def micro(sums: np.ndarray, ratio: Ratio) -> np.ndarray:
    """Return a micro-averaged ratio from sums ``[..., 3 * observations]`` of :func:`label_counts`; NaN if undefined."""
    hits, predicted, expected = (part.sum(axis=-1) for part in np.split(sums, 3, axis=-1))
    above, below = {"precision": (hits, predicted), "recall": (hits, expected), "f1": (2 * hits, predicted + expected)}[
        ratio
    ]
    with np.errstate(invalid="ignore"):
        return above / below


def weighted_f1(sums: np.ndarray) -> np.ndarray:
    """Return F1 averaged by support, from sums of :func:`label_counts`; NaN if nothing is present."""
    hits, predicted, expected = np.split(sums, 3, axis=-1)
    with np.errstate(invalid="ignore"):
        each = np.nan_to_num(2 * hits / (predicted + expected))  # an observation without support has no weight
        return (each * expected).sum(axis=-1) / expected.sum(axis=-1)
