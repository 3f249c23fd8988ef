"""Clinical efficacy: agreement of CheXbert labels between references and generated reports.

Paper, appendix "Clinical and Language Metrics": over 14 observations, positive and uncertain count as present, blank
and negative as absent; precision, recall and F1 are micro-averaged over cases and observations. Other groups count
otherwise: :mod:`pacer.metrics.conventions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, get_args

import numpy as np

from pacer.core.errors import ConfigError, DataError
from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.metrics.conventions import CONVENTIONS

Score = float | None

Ratio = Literal["precision", "recall", "f1"]
#: The three ratios, in the order in which they are given.
RATIOS: tuple[Ratio, ...] = get_args(Ratio)


class Efficacy(TypedDict):
    """``precision``, ``recall``, ``f1``: the convention's headline average; ``averages``: every average it quotes, by
    name (``f1_macro``); ``n``: rows kept; ``undefined_parts``: how many observations or records had no value and count
    as 0, by average; ``per_label``: the three ratios, ``support`` (references with the observation) and ``counts``
    (both, only the hypothesis, only the reference, neither) of each observation."""

    precision: Score
    recall: Score
    f1: Score
    averages: dict[str, Score]
    n: int
    undefined_parts: dict[str, dict[str, int]]
    per_label: dict[str, dict[str, Score | list[int]]]


def clinical_efficacy(
    references: Any, hypotheses: Any, convention: str = "llm-rg4", studies: Sequence[str | None] | None = None
) -> Efficacy:
    """Precision, recall and F1 of ``hypotheses`` against ``references`` under a named convention.

    A ratio without a denominator (no positive prediction, no positive reference, or neither) is undefined and given as
    ``None``, never as 0; in an average over observations or records it counts as 0, as in the conventions' own code.

    Args:
        references: CheXbert classes of the references ``[n, 14]``, integers 0 to 3 (array, tensor or nested list).
        hypotheses: classes of the generated reports, row by row the same records.
        convention: a key of :data:`~pacer.metrics.conventions.CONVENTIONS`.
        studies: study of each row, for conventions that keep the first row of a study. A row whose study is not known
            (``None`` or blank) is one of its own; default: every row is.

    Raises:
        DataError: shapes differ or a class is not known. ConfigError: the convention is not known.
    """
    if convention not in CONVENTIONS:
        raise ConfigError(f"convention {convention!r} is not one of {', '.join(CONVENTIONS)}")
    rule = CONVENTIONS[convention]
    columns = [OBSERVATIONS.index(name) for name in rule.observations]
    truth, found = (np.isin(side[:, columns], rule.present) for side in _both(references, hypotheses))
    if studies is not None and len(studies) != len(truth):
        raise DataError(f"{len(truth)} rows of labels and {len(studies)} studies; one per record each")
    if rule.duplicates == "first" and studies is not None:
        first = sorted({study or row: row for row, study in reversed(list(enumerate(studies)))}.values())
        truth, found = truth[first], found[first]
    averages: dict[str, Score] = {}
    undefined: dict[str, dict[str, int]] = {}
    for average in rule.averages:
        if average == "micro":
            averages |= {f"{name}_micro": value for name, value in precision_recall_f1(truth, found).items()}
            continue
        axis = 1 if average == "example" else 0
        weights = truth.sum(axis=0) if average == "weighted" else None
        undefined[average] = {}
        for name, parts in _ratios(truth, found, axis).items():
            averages[f"{name}_{average}"] = _average(np.nan_to_num(parts), weights)
            undefined[average][name] = int(np.isnan(parts).sum())
    precision, recall, f1 = (averages[f"{name}_{rule.averages[0]}"] for name in RATIOS)
    return Efficacy(
        precision=precision,
        recall=recall,
        f1=f1,
        averages=averages,
        n=len(truth),
        undefined_parts=undefined,
        per_label={
            name: precision_recall_f1(present, given)
            | {"support": int(present.sum())}
            | {"counts": np.bincount(2 * ~present + ~given, minlength=4)[[0, 2, 1, 3]].tolist()}
            for name, present, given in zip(rule.observations, truth.T, found.T, strict=True)
        },
    )


def precision_recall_f1(truth: np.ndarray, found: np.ndarray) -> dict[str, Score]:
    """Precision, recall and F1 over all cells of two Boolean arrays of one shape; ``None`` where undefined."""
    return {name: None if np.isnan(value) else float(value) for name, value in _ratios(truth, found, None).items()}


def plain_mean(values: Sequence[Score]) -> Score:
    """Mean; ``None`` without a value, and as soon as one is undefined."""
    defined = [value for value in values if value is not None]
    return sum(defined) / len(values) if values and len(defined) == len(values) else None


def label_confusion(references: Any, hypotheses: Any) -> dict[str, list[list[int]]]:
    """Counts of the four classes of each observation ``[4][4]``: rows the reference, columns the generated report."""
    expected, found = _both(references, hypotheses)
    counts = (np.bincount(4 * one + other, minlength=16) for one, other in zip(expected.T, found.T, strict=True))
    return {name: cells.reshape(4, 4).tolist() for name, cells in zip(OBSERVATIONS, counts, strict=True)}


def _both(references: Any, hypotheses: Any) -> tuple[np.ndarray, np.ndarray]:
    """The labels of both sides, of as many rows."""
    expected, found = as_labels(references, "references"), as_labels(hypotheses, "hypotheses")
    if len(expected) != len(found):
        raise DataError(f"{len(expected)} reference rows and {len(found)} hypothesis rows; one row per record each")
    return expected, found


def _ratios(truth: np.ndarray, found: np.ndarray, axis: int | None) -> dict[str, np.ndarray]:
    """The three ratios of every observation (axis 0) or record (axis 1), or over all cells; NaN where undefined."""
    hits, predicted, present = ((part).sum(axis=axis).astype(float) for part in (truth & found, found, truth))
    with np.errstate(invalid="ignore"):
        values = (hits / predicted, hits / present, 2 * hits / (predicted + present))
    return dict(zip(RATIOS, values, strict=True))


def _average(parts: np.ndarray, weights: np.ndarray | None) -> Score:
    """Mean of the parts; ``None`` where there is none, or none has a weight."""
    weights = np.ones(len(parts)) if weights is None else weights
    total = weights.sum()
    return float((parts * weights).sum() / total) if total else None


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
        raise DataError(
            f"{what}: labels must be integers 0 (blank), 1 (positive), 2 (negative), 3 (uncertain), got {array.dtype}"
        )
    if array.size and (array.min() < 0 or array.max() > UNCERTAIN or array[:, -1].max() > POSITIVE):
        raise DataError(f"{what}: labels must lie in 0..3 (No Finding: 0 or 1), got {array.min()}..{array.max()}")
    return array
