"""Clinical efficacy: agreement of CheXbert labels between references and generated reports.

Paper, appendix "Clinical and Language Metrics": over 14 observations, positive and uncertain count as present, blank
and negative as absent; precision, recall and F1 are micro-averaged over cases and observations. Other groups use other
conventions, and the same labels give different numbers under each, so a number without its convention cannot be
compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

import numpy as np
import polars as pl

from pacer.core.errors import ConfigError, DataError
from pacer.metrics.cases import labels_of
from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN

Score = float | None

#: micro: over all cells of records x observations; macro: mean over observations; weighted: mean over observations,
#: weighted by the number of references with the observation; example: mean over records.
Average = Literal["micro", "macro", "weighted", "example"]
Ratio = Literal["precision", "recall", "f1"]
#: The three ratios, in the order of reporting.
RATIOS: tuple[Ratio, ...] = get_args(Ratio)


@dataclass(frozen=True)
class Convention:
    """How labels become scores; ``docs/evaluation.md`` lists which published evaluations follow which convention.

    ``present``: classes that count as present; all others are absent. ``observations``: the labels that are scored.
    ``averages``: what the convention reports, its headline first. ``duplicates``: ``all`` rows, or only the ``first``
    of each study.

    An undefined precision, recall or F1 of an observation or record counts as 0 in every average. All published code
    does this: LLM-RG4, R2Gen, f1chexbert and RadEval by scikit-learn's default, CvT2DistilGPT2, CXRMate and MLRG by
    ``fillna(0)``.
    """

    present: tuple[int, ...]
    observations: tuple[str, ...] = OBSERVATIONS
    averages: tuple[Average, ...] = ("micro",)
    duplicates: Literal["all", "first"] = "all"


CONVENTIONS: dict[str, Convention] = {
    "llm-rg4": Convention((POSITIVE, UNCERTAIN), averages=("micro", "macro")),
    "r2gen": Convention((POSITIVE,), averages=("micro", "macro")),
    "nicolson": Convention((POSITIVE,), averages=("micro", "macro", "example"), duplicates="first"),
    "top5": Convention(
        (POSITIVE, UNCERTAIN), ("Cardiomegaly", "Edema", "Consolidation", "Atelectasis", "Pleural Effusion")
    ),
    "weighted": Convention((POSITIVE, UNCERTAIN), averages=("weighted",)),
}


class Efficacy(TypedDict):
    """``precision``, ``recall``, ``f1``: the convention's headline average; ``averages``: every average that the
    convention reports, by name (``f1_macro``); ``n``: number of rows counted."""

    precision: Score
    recall: Score
    f1: Score
    averages: dict[str, Score]
    n: int


def clinical_efficacy(references: Any, hypotheses: Any, convention: str = "llm-rg4") -> Efficacy:
    """Return precision, recall and F1 of ``hypotheses`` against ``references`` under a named convention. A ratio
    without a denominator is undefined: ``None``, never 0.

    Args:
        references, hypotheses: CheXbert classes ``[n, 14]``, integers 0 to 3 (array, tensor or nested list), of the
            same records in the same order; all rows count. convention: a key of :data:`CONVENTIONS`.

    Raises:
        DataError: shapes differ or a class is unknown. ConfigError: the convention is unknown.
    """
    if convention not in CONVENTIONS:
        raise ConfigError(f"convention {convention!r} is not one of {', '.join(CONVENTIONS)}")
    rule = CONVENTIONS[convention]
    truth, predicted = (present(as_labels(labels), rule) for labels in (references, hypotheses))
    if len(truth) != len(predicted):
        raise DataError(
            f"{len(truth)} reference rows, but {len(predicted)} hypothesis rows; expected one of each per record"
        )
    averages = {
        f"{name}_{average}": value
        for average in rule.averages
        for name, value in ratios(truth, predicted, average).items()
    }
    precision, recall, f1 = (averages[f"{name}_{rule.averages[0]}"] for name in RATIOS)
    return Efficacy(precision=precision, recall=recall, f1=f1, averages=averages, n=len(truth))


def case_efficacy(cases: pl.DataFrame, convention: str, reports: str = "hypothesis") -> Efficacy:
    """Return the same of labelled cases, of the rows that the convention counts; ``reports``: ``hypothesis`` or a
    control."""
    counted = cases.filter(_counted(cases, CONVENTIONS[convention]))
    return clinical_efficacy(labels_of(counted, "reference"), labels_of(counted, reports), convention)


def ratios(truth: np.ndarray, predicted: np.ndarray, average: Average = "micro") -> dict[str, Score]:
    """Return precision, recall and F1 of two Boolean arrays ``[n, labels]``. Undefined values are ``None``: a micro
    ratio without a denominator, or a weighted average if no label has weight."""
    counts = label_counts(truth, predicted)
    # an average over records is one over labels, with the records in place of the labels
    sums = counts.reshape(len(counts), 3, -1).sum(axis=2).T.ravel() if average == "example" else counts.sum(axis=0)
    values = {name: float(averaged(sums, name, average)) for name in RATIOS}
    return {name: None if np.isnan(value) else value for name, value in values.items()}


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
        raise DataError(f"labels must be in 0..3 (No Finding: 0 or 1), got {array.min()}..{array.max()}")
    return array


# Sums over cases, from which any resample can be scored


def label_counts(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return hits, predictions and references for each observation, ``[n, 3 * observations]``, from Boolean arrays
    ``[n, observations]``."""
    return np.concatenate([truth & predicted, predicted, truth], axis=1).astype(float)


def label_rows(cases: pl.DataFrame, rule: Convention) -> np.ndarray:
    """Return the counts of each observation by case, ``[n, 3 * observations]``. Rows that the convention leaves out, in
    each context separately, are 0."""
    rows = label_counts(*(present(labels_of(cases, side), rule) for side in ("reference", "hypothesis")))
    rows[~_counted(cases, rule)] = 0
    return rows


def _counted(cases: pl.DataFrame, rule: Convention) -> np.ndarray:
    """Return which rows a convention counts, Boolean ``[n]``: all, or the first of each study in each context. A row of
    an unknown study counts as its own study."""
    if rule.duplicates == "all":
        return np.ones(len(cases), dtype=bool)
    unknown = cases["study_id"].fill_null("").str.strip_chars() == ""
    return (cases.select(pl.struct("context", "study_id").is_first_distinct()).to_series() | unknown).to_numpy()


def averaged(sums: np.ndarray, ratio: str, average: Average = "micro") -> np.ndarray:
    """Return precision, recall or F1 from sums ``[..., 3 * labels]`` of :func:`label_counts`. NaN: a micro ratio
    without a denominator, or a weighted average if nothing is present; other undefined values count as 0."""
    parts = np.split(sums, 3, axis=-1)
    hits, predicted, expected = [part.sum(axis=-1) for part in parts] if average == "micro" else parts
    above, below = {"precision": (hits, predicted), "recall": (hits, expected), "f1": (2 * hits, predicted + expected)}[
        ratio
    ]
    with np.errstate(invalid="ignore"):
        each = above / below
        if average == "micro":
            return each
        each = np.nan_to_num(each)
        return (each * expected).sum(axis=-1) / expected.sum(axis=-1) if average == "weighted" else each.mean(axis=-1)
