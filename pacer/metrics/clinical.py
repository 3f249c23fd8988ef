"""Clinical efficacy: agreement of CheXbert labels between references and generated reports.

Paper, appendix "Clinical and Language Metrics": over 14 observations, positive and uncertain count
as present, blank and negative as absent; precision, recall and F1 are micro-averaged over cases and
observations. Other groups use other conventions, and the same labels give different numbers under
each, so a number without its convention cannot be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import polars as pl

from pacer.backbones.observations import OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.metrics.cases import labels_of

#: micro: over all cells of records x observations; macro: mean over observations; weighted: mean
#: over observations, weighted by the number of references with the observation; example: mean over
#: records.
Average = Literal["micro", "macro", "weighted", "example"]
Ratio = Literal["precision", "recall", "f1"]
#: The three ratios, in the order of reporting.
RATIOS: tuple[Ratio, ...] = get_args(Ratio)


@dataclass(frozen=True)
class Convention:
    """How labels become scores; ``docs/scores.md`` lists which published evaluations follow
    which convention. ``present``: classes that count as present; all others are absent.
    ``observations``: the labels that are scored. ``averages``: what the convention reports; the
    first is its headline, and never ``example``, which cannot be computed from sums over cases.
    ``duplicates``: ``all`` rows, or the ``first`` of each study.

    In averages over observations or records (all but ``micro``), those whose precision, recall or
    F1 is undefined count as 0. All published code does this: LLM-RG4, R2Gen, f1chexbert and RadEval
    by scikit-learn's default, CvT2DistilGPT2, CXRMate and MLRG by ``fillna(0)``.
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
        (POSITIVE, UNCERTAIN),
        ("Cardiomegaly", "Edema", "Consolidation", "Atelectasis", "Pleural Effusion"),
    ),
    "weighted": Convention((POSITIVE, UNCERTAIN), averages=("weighted",)),
}


def case_efficacy(
    cases: pl.DataFrame, convention: str, reports: str = "hypothesis"
) -> dict[str, float | None]:
    """Return every average that a convention reports of labelled cases, by name (``f1_macro``;
    None: no denominator), and the number ``n`` of rows that it counts. ``reports``: ``hypothesis``
    or a control."""
    rule = CONVENTIONS[convention]
    # rows that do not count are removed here, because `n` is the number of rows, and `example`
    # divides by it; `label_rows` would only set them to 0
    counted = cases.filter(_counted(cases, rule))
    rows = label_rows(counted, rule, reports)
    averages = {average: ratios(rows, average) for average in rule.averages}
    named = {
        f"{ratio}_{average}": value
        for average, values in averages.items()
        for ratio, value in values.items()
    }
    return {"n": len(counted), **named}


def ratios(counts: np.ndarray, average: Average = "micro") -> dict[str, float | None]:
    """Return precision, recall and F1 from :func:`label_counts`. Undefined values are ``None``: a
    micro ratio without a denominator, or a weighted average if no label has weight."""
    sums = counts.sum(axis=0)
    if average == "example":
        # each record [3 * labels] becomes a label of its own [3], over which macro averages
        sums = counts.reshape(len(counts), 3, -1).sum(axis=2).T.ravel()
        average = "macro"
    return {name: defined(averaged(sums, name, average)) for name in RATIOS}


def present(labels: np.ndarray, rule: Convention) -> np.ndarray:
    """Return which observations of a convention are present, Boolean ``[n, observations]``, from
    labels ``[n, 14]``."""
    return np.isin(
        labels[:, [OBSERVATIONS.index(name) for name in rule.observations]], rule.present
    )


def defined(value: float | np.ndarray) -> float | None:
    """Return a score as a number, and NaN as None."""
    return None if np.isnan(value) else float(value)


def plain_mean(values: Sequence[float | None]) -> float | None:
    """Return the mean; ``None`` if there are no values or any value is undefined."""
    known = [value for value in values if value is not None]
    return sum(known) / len(values) if values and len(known) == len(values) else None


# Sums over cases, from which any resample can be scored


def label_counts(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return which labels are hit, predicted and expected, side by side ``[n, 3 * labels]``, from
    Boolean arrays ``[n, labels]``."""
    return np.concatenate([truth & predicted, predicted, truth], axis=1).astype(float)


def label_rows(cases: pl.DataFrame, rule: Convention, reports: str = "hypothesis") -> np.ndarray:
    """Return the counts of each observation by case, ``[n, 3 * observations]``. Rows that the
    convention leaves out, in each context separately, are 0."""
    truth, predicted = (present(labels_of(cases, side), rule) for side in ("reference", reports))
    rows = label_counts(truth, predicted)
    rows[~_counted(cases, rule)] = 0
    return rows


def _counted(cases: pl.DataFrame, rule: Convention) -> np.ndarray:
    """Return which rows a convention counts, ``[n]``: all, or the first of each known study in each
    context."""
    if rule.duplicates == "all":
        return np.ones(len(cases), dtype=bool)
    unknown = cases["study_id"].fill_null("").str.strip_chars() == ""
    return (
        cases.select(pl.struct("context", "study_id").is_first_distinct()).to_series() | unknown
    ).to_numpy()


def averaged(sums: np.ndarray, ratio: str, average: Average = "micro") -> np.ndarray:
    """Return precision, recall or F1 from the sums ``[..., 3 * labels]`` of hits, predicted and
    expected, of :func:`label_counts` or of ``list_rows`` in ``commitments.py``. The result is NaN
    for a micro ratio without a denominator, and for a weighted average if no label is expected. In
    averages over labels, an undefined ratio counts as 0. ``example`` needs the counts of each
    record, which :func:`ratios` takes."""
    parts = np.split(sums, 3, axis=-1)
    hits, predicted, expected = (
        [part.sum(axis=-1) for part in parts] if average == "micro" else parts
    )
    above, below = {
        "precision": (hits, predicted),
        "recall": (hits, expected),
        "f1": (2 * hits, predicted + expected),
    }[ratio]
    with np.errstate(invalid="ignore"):
        each = above / below
        if average == "micro":
            return each
        each = np.nan_to_num(each)
        return (
            (each * expected).sum(axis=-1) / expected.sum(axis=-1)
            if average == "weighted"
            else each.mean(axis=-1)
        )
