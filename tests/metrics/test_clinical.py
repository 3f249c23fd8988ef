from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from pacer.core.errors import ConfigError, DataError
from pacer.metrics.chexbert import OBSERVATIONS
from pacer.metrics.clinical import clinical_efficacy


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
    expected = precision_recall_fscore_support(truth.ravel(), found.ravel(), average="binary", zero_division=np.nan)
    assert or_nan(scores) == pytest.approx(expected[:3], nan_ok=True)
    per_label = precision_recall_fscore_support(truth, found, average=None, zero_division=np.nan)
    for index, name in enumerate(OBSERVATIONS):
        mine = scores["per_label"][name]
        assert or_nan(mine) == pytest.approx([column[index] for column in per_label[:3]], nan_ok=True)
        assert mine["support"] == per_label[3][index]


def test_uncertain_counts_as_present_and_negative_as_absent():
    references, hypotheses = np.zeros((3, 14), int), np.zeros((3, 14), int)
    references[:, 0], hypotheses[:, 0] = (1, 1, 0), (3, 2, 1)
    scores = clinical_efficacy(references, hypotheses)
    assert (scores["precision"], scores["recall"], scores["f1"]) == (0.5, 0.5, 0.5)
    strict = clinical_efficacy(references, hypotheses, "r2gen")
    assert (strict["precision"], strict["recall"]) == (0.0, 0.0)


def test_no_denominator_is_undefined_and_not_zero():
    nothing, something = np.zeros((2, 14), int), np.ones((2, 14), int)
    assert clinical_efficacy(nothing, nothing) | {"per_label": 0} == {
        "precision": None, "recall": None, "f1": None, "per_label": 0}
    missed = clinical_efficacy(something, nothing)
    assert (missed["precision"], missed["recall"], missed["f1"]) == (None, 0.0, 0.0)
    invented = clinical_efficacy(nothing, something)
    assert (invented["precision"], invented["recall"], invented["f1"]) == (0.0, None, 0.0)


def test_takes_tensors_and_lists_alike():
    references, hypotheses = random_labels(1), random_labels(2)
    expected = clinical_efficacy(references, hypotheses)
    assert clinical_efficacy(torch.from_numpy(references).int(), torch.from_numpy(hypotheses).int()) == expected
    assert clinical_efficacy(references.tolist(), hypotheses.tolist()) == expected


def test_the_five_observations_of_top5():
    references, hypotheses = random_labels(1), random_labels(2)
    assert len(clinical_efficacy(references, hypotheses, "top5")["per_label"]) == 5


@pytest.mark.parametrize("labels, problem", [
    (np.zeros((3, 13), int), r"\[n, 14\]"), (np.full((3, 14), 4), "0..3"), (np.full((3, 14), -1), "0..3"),
    (np.full((3, 14), 2), "No Finding"), (np.zeros((3, 14)), "integers"), (np.zeros((4, 14), int), "4 hypothesis rows"),
])
def test_malformed_labels_are_refused(labels, problem):
    with pytest.raises(DataError, match=problem):
        clinical_efficacy(np.zeros((3, 14), int), labels)


def test_an_unknown_convention_is_refused():
    with pytest.raises(ConfigError, match="llm-rg4"):
        clinical_efficacy(random_labels(1), random_labels(2), "llm-rg5")
