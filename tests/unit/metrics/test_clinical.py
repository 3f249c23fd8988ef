from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from pacer.core.errors import ConfigError, DataError
from pacer.metrics.chexbert.observations import OBSERVATIONS
from pacer.metrics.clinical import clinical_efficacy, label_confusion
from pacer.metrics.conventions import CONVENTIONS


def random_labels(seed: int, count: int = 50) -> np.ndarray:
    labels = np.random.default_rng(seed).integers(0, 4, size=(count, 14))
    labels[:, 13] %= 2
    return labels


def or_nan(scores, keys=("precision", "recall", "f1")):
    return [np.nan if scores[key] is None else scores[key] for key in keys]


@given(st.integers(0, 2**31), st.integers(1, 40))
@example(350, 1)  # no positive prediction: the precision is undefined
def test_equals_scikit_learn(seed, count):
    references, hypotheses = random_labels(seed, count), random_labels(seed + 1, count)
    scores = clinical_efficacy(references, hypotheses)
    truth, found = np.isin(references, (1, 3)), np.isin(hypotheses, (1, 3))
    per_label = precision_recall_fscore_support(truth, found, average=None, zero_division=np.nan)
    for index, name in enumerate(OBSERVATIONS):
        mine = scores["per_label"][name]
        assert or_nan(mine) == pytest.approx([column[index] for column in per_label[:3]], nan_ok=True)
        assert mine["support"] == per_label[3][index]


#: scikit-learn's names of the averages.
AVERAGES = {"micro": "micro", "macro": "macro", "weighted": "weighted", "example": "samples"}


@given(
    st.integers(0, 2**31), st.integers(1, 40), st.sampled_from(sorted(CONVENTIONS)), st.sampled_from([0.0, 0.6, 0.97])
)
@example(1, 1, "nicolson", 1.0)
def test_every_average_of_every_convention_equals_scikit_learn(seed, count, convention, blank):
    references, hypotheses = random_labels(seed, count), random_labels(seed + 1, count)
    hidden = np.random.default_rng(seed).random((2, count, 14)) < blank  # observations without a positive are common
    references[hidden[0]], hypotheses[hidden[1]] = 0, 0
    rule = CONVENTIONS[convention]
    columns = [OBSERVATIONS.index(name) for name in rule.observations]
    truth, found = (np.isin(labels[:, columns], rule.present) for labels in (references, hypotheses))
    scores = clinical_efficacy(references, hypotheses, convention)
    assert len(scores["averages"]) == 3 * len(rule.averages)
    for average in rule.averages:
        filling = np.nan if average == "micro" else 0.0
        expected = precision_recall_fscore_support(truth, found, average=AVERAGES[average], zero_division=filling)[:3]
        if average == "weighted" and not truth.any():
            expected = [np.nan] * 3  # nothing has a weight; scikit-learn then weighs all alike
        keys = [f"{name}_{average}" for name in ("precision", "recall", "f1")]
        assert or_nan(scores["averages"], keys) == pytest.approx(expected, nan_ok=True)
    assert scores["f1"] == scores["averages"][f"f1_{rule.averages[0]}"]


def test_the_first_row_of_a_study_counts_where_the_convention_says_so():
    references, hypotheses = random_labels(1, 6), random_labels(2, 6)
    studies = ["a", "b", "a", "c", "b", "a"]
    for convention in CONVENTIONS:
        kept = [0, 1, 3] if convention == "nicolson" else list(range(6))
        assert clinical_efficacy(references, hypotheses, convention, studies) == clinical_efficacy(
            references[kept], hypotheses[kept], convention
        )
    unknown = ["a", None, "a", None, "", ""]  # a row of an unknown study is not the same study's as another one
    assert clinical_efficacy(references, hypotheses, "nicolson", unknown)["n"] == 5
    with pytest.raises(DataError, match="6 rows of labels and 2 studies"):
        clinical_efficacy(references, hypotheses, "nicolson", ["a", "b"])


def test_confusion_of_the_classes():
    references, hypotheses = random_labels(3), random_labels(4)
    for index, (name, counts) in enumerate(label_confusion(references, hypotheses).items()):
        assert name == OBSERVATIONS[index]
        assert counts == confusion_matrix(references[:, index], hypotheses[:, index], labels=range(4)).tolist()
    edema = clinical_efficacy(references, hypotheses)["per_label"]["Edema"]["counts"]
    table = np.array(label_confusion(references, hypotheses)["Edema"])
    present, absent = [1, 3], [0, 2]
    assert edema == [
        int(table[np.ix_(rows, columns)].sum())
        for rows, columns in ((present, present), (absent, present), (present, absent), (absent, absent))
    ]


def test_uncertain_counts_as_present_and_negative_as_absent():
    references, hypotheses = np.zeros((3, 14), int), np.zeros((3, 14), int)
    references[:, 0], hypotheses[:, 0] = (1, 1, 0), (3, 2, 1)
    scores = clinical_efficacy(references, hypotheses)
    assert (scores["precision"], scores["recall"], scores["f1"]) == (0.5, 0.5, 0.5)
    strict = clinical_efficacy(references, hypotheses, "r2gen")
    assert (strict["precision"], strict["recall"]) == (0.0, 0.0)


def test_a_label_that_is_never_predicted_counts_as_zero_in_macro_precision():
    """As in LLM-RG4's own code, which leaves scikit-learn's zero_division at its default."""
    references, hypotheses = np.zeros((4, 14), int), np.zeros((4, 14), int)
    references[:2], hypotheses[:2, :7] = 1, 1  # seven of fourteen labels are never predicted
    scores = clinical_efficacy(references, hypotheses)
    assert scores["averages"]["precision_macro"] == 0.5
    assert scores["undefined_parts"]["macro"] == {"precision": 7, "recall": 0, "f1": 0}
    assert scores["precision"] == 1.0 and scores["per_label"]["No Finding"]["precision"] is None


def test_takes_tensors_and_lists_alike():
    references, hypotheses = random_labels(1), random_labels(2)
    expected = clinical_efficacy(references, hypotheses)
    assert clinical_efficacy(torch.from_numpy(references).int(), torch.from_numpy(hypotheses).int()) == expected
    assert clinical_efficacy(references.tolist(), hypotheses.tolist()) == expected


def test_the_five_observations_of_top5():
    references, hypotheses = random_labels(1), random_labels(2)
    assert len(clinical_efficacy(references, hypotheses, "top5")["per_label"]) == 5


@pytest.mark.parametrize(
    "labels, problem",
    [
        (np.zeros((3, 13), int), r"\[n, 14\]"),
        (np.full((3, 14), 4), "0..3"),
        (np.full((3, 14), -1), "0..3"),
        (np.full((3, 14), 2), "No Finding"),
        (np.zeros((3, 14)), "integers"),
        (np.zeros((4, 14), int), "4 hypothesis rows"),
    ],
)
def test_malformed_labels_are_refused(labels, problem):
    with pytest.raises(DataError, match=problem):
        clinical_efficacy(np.zeros((3, 14), int), labels)


def test_an_unknown_convention_is_refused():
    with pytest.raises(ConfigError, match="llm-rg4"):
        clinical_efficacy(random_labels(1), random_labels(2), "llm-rg5")
