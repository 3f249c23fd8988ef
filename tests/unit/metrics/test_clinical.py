import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from pacer.backbones.observations import OBSERVATIONS
from pacer.metrics.clinical import CONVENTIONS, RATIOS, averaged, case_efficacy, label_rows
from tests.support.metrics import efficacy

#: scikit-learn's names of the averages.
AVERAGES = {"micro": "micro", "macro": "macro", "weighted": "weighted", "example": "samples"}


def random_labels(seed: int, count: int = 50) -> np.ndarray:
    labels = np.random.default_rng(seed).integers(0, 4, size=(count, 14))
    labels[:, 13] %= 2
    return labels


@given(
    st.integers(0, 2**31), st.integers(1, 40), st.sampled_from(sorted(CONVENTIONS)), st.sampled_from([0.0, 0.6, 0.97])
)
@example(1, 1, "nicolson", 1.0)
@example(350, 1, "llm-rg4", 0.0)  # no positive prediction: the precision is undefined
def test_every_average_of_every_convention(seed, count, convention, blank):
    """To the digit what scikit-learn gives."""
    references, hypotheses = random_labels(seed, count), random_labels(seed + 1, count)
    hidden = np.random.default_rng(seed).random((2, count, 14)) < blank  # observations without a positive are common
    references[hidden[0]], hypotheses[hidden[1]] = 0, 0
    rule = CONVENTIONS[convention]
    columns = [OBSERVATIONS.index(name) for name in rule.observations]
    truth, found = (np.isin(labels[:, columns], rule.present) for labels in (references, hypotheses))
    scores = efficacy(references, hypotheses, convention)
    for average in rule.averages:
        filling = np.nan if average == "micro" else 0.0
        expected = precision_recall_fscore_support(truth, found, average=AVERAGES[average], zero_division=filling)[:3]
        if average == "weighted" and not truth.any():
            expected = [np.nan] * 3  # nothing has a weight; scikit-learn then weighs all alike
        values = [scores[f"{name}_{average}"] for name in RATIOS]
        given = [np.nan if value is None else value for value in values]
        np.testing.assert_array_equal(given, list(expected))
    assert len(scores) == 1 + 3 * len(rule.averages) + 3 and scores["n"] == count


def test_the_first_row_of_a_study_counts_where_the_convention_says_so():
    """In each context; a row of an unknown study is not the same study's as another one."""
    labels = {"reference": random_labels(1, 9), "hypothesis": random_labels(2, 9)}
    table = {"context": ["sn"] * 6 + ["mw"] * 3, "study_id": ["a", "b", "a", None, "", "b", "a", " ", "a"]}
    cases = pl.DataFrame(table | {f"{side}_labels": rows.tolist() for side, rows in labels.items()})
    for convention, rule in CONVENTIONS.items():
        kept = [0, 1, 3, 4, 6, 7] if convention == "nicolson" else list(range(9))
        expected = efficacy(*(rows[kept] for rows in labels.values()), convention)
        assert case_efficacy(cases, convention).items() <= expected.items()
        f1 = averaged(label_rows(cases, rule).sum(axis=0), "f1", rule.averages[0])
        assert f1 == pytest.approx(expected["f1"])


def test_uncertain_counts_as_present_and_negative_as_absent():
    references, hypotheses = np.zeros((3, 14), int), np.zeros((3, 14), int)
    references[:, 0], hypotheses[:, 0] = (1, 1, 0), (3, 2, 1)
    scores = efficacy(references, hypotheses)
    assert (scores["precision"], scores["recall"], scores["f1"]) == (0.5, 0.5, 0.5)
    strict = efficacy(references, hypotheses, "r2gen")
    assert (strict["precision"], strict["recall"]) == (0.0, 0.0)
