"""Clinical efficacy: agreement of CheXbert labels between references and generated reports.

The example has two records with the 14 labels (1: positive, 2: negative, 3: uncertain, 0: blank).
The report of the first agrees in one of two observations; that of the second in none.

>>> labels = [[[0] * 14, [0] * 14], [[0] * 14, [0] * 14]]
>>> labels[0][0][:2], labels[0][1][:2] = [1, 1], [0, 1]  # the references
>>> labels[1][0][:2], labels[1][1][:2] = [1, 0], [3, 0]  # the reports
>>> cases = pl.DataFrame(
...     {
...         "context": ["sn", "sn"],
...         "study_id": ["a", "b"],
...         "reference_labels": labels[0],
...         "hypothesis_labels": labels[1],
...     }
... )
>>> from pacer.metrics.score_kinds import ContextCases, values_of
>>> values_of(SCORES, ContextCases(cases, "llm-rg4"))
{'precision': 0.5, 'recall': 0.3333333333333333, 'f1': 0.4}
"""

import numpy as np
import polars as pl

from pacer.backbones.observations import OBSERVATIONS
from pacer.metrics.cases import by_context, labels_of, with_mean
from pacer.metrics.conventions import CONVENTIONS, RATIOS, Average, Convention
from pacer.metrics.score_kinds import Numbers, Score, Sums, defined

_NEEDS = ("hypothesis_labels", "reference_labels", "context", "study_id")
_EFFICACY = "CheXbert's labels, report against reference, by `score.convention`"


def conventions_of(cases: pl.DataFrame) -> dict[str, dict[str, Numbers]]:
    """Return every average of labelled cases: convention -> context, or ``mean`` -> average."""
    contexts = by_context(cases)
    return {
        convention: with_mean(
            {name: case_efficacy(part, convention) for name, part in contexts.items()}, {"n"}
        )
        for convention in CONVENTIONS
    }


def case_efficacy(cases: pl.DataFrame, convention: str) -> Numbers:
    """Return every average that a convention reports of labelled cases, by name (``f1_macro``;
    None: no denominator), and the number ``n`` of rows that it counts."""
    rule = CONVENTIONS[convention]
    # rows that do not count are removed here, because `n` is the number of rows, and `example`
    # divides by it; `label_rows` would only set them to 0
    counted = cases.filter(_counted(cases, rule))
    rows = label_rows(counted, rule)
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
    expected, of :func:`label_counts` or of ``list_rows`` in ``findings.py``. The result is NaN
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


def label_precision(sums: np.ndarray, rule: Convention) -> np.ndarray:
    """Return precision from sums of :func:`label_rows`."""
    return averaged(sums, "precision", rule.averages[0])


def label_recall(sums: np.ndarray, rule: Convention) -> np.ndarray:
    """Return recall from sums of :func:`label_rows`."""
    return averaged(sums, "recall", rule.averages[0])


def label_f1(sums: np.ndarray, rule: Convention) -> np.ndarray:
    """Return F1 from sums of :func:`label_rows`."""
    return averaged(sums, "f1", rule.averages[0])


# without `counted`: F1 is no share, and the denominators depend on the convention
SCORES = (
    Score(
        key="precision",
        title="P",
        meaning=_EFFICACY,
        place="scores",
        needs=_NEEDS,
        sums=Sums(label_rows, label_precision),
    ),
    Score(
        key="recall",
        title="R",
        meaning=_EFFICACY,
        place="scores",
        needs=_NEEDS,
        sums=Sums(label_rows, label_recall),
    ),
    Score(
        key="f1",
        title="F1",
        meaning=_EFFICACY,
        place="scores",
        needs=_NEEDS,
        sums=Sums(label_rows, label_f1),
        tested=True,
        beside="CE F1",
        short="F1",
    ),
)
