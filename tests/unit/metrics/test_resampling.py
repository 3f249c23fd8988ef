from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocoevalcap.bleu.bleu import Bleu
from sklearn.metrics import f1_score

from pacer.comparison import statistics
from pacer.comparison.resampling import Pair, differences, holm
from pacer.metrics.chexbert.observations import OBSERVATIONS
from pacer.metrics.conventions import CONVENTIONS

WORDS = ["the", "heart", "lungs", "is", "clear", "no", "effusions", "effusion", "enlarged", "enlargement", "."]


def texts(seed: int, count: int = 40) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(0, 25))) for _ in range(count)]


def resamples(seed: int, count: int) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [np.arange(count), *(draw.integers(0, count, 25) for _ in range(4))]


def test_bleu_of_any_resample_equals_the_package():
    references, hypotheses = texts(1), texts(2)
    rows = statistics.bleu_statistics(references, hypotheses)
    for chosen in resamples(0, len(rows)):
        pairs = ({i: [side[row]] for i, row in enumerate(chosen)} for side in (references, hypotheses))
        expected, _ = Bleu(4).compute_score(*pairs, verbose=0)
        sums = rows[chosen].sum(axis=0)
        assert [statistics.bleu(sums, order) for order in (1, 2, 3, 4)] == pytest.approx(expected, rel=1e-9)


@given(st.integers(0, 2**31), st.sampled_from(sorted(CONVENTIONS)))
def test_f1_of_any_resample_equals_scikit_learn(seed, convention):
    draw = np.random.default_rng(seed)
    references, hypotheses = (draw.integers(0, 4, (30, 14)) * (draw.random((30, 14)) < 0.5) for _ in range(2))
    references[:, 13], hypotheses[:, 13] = references[:, 13] % 2, hypotheses[:, 13] % 2
    rule = CONVENTIONS[convention]
    rows = statistics.label_statistics(references, hypotheses, rule)
    columns = [OBSERVATIONS.index(name) for name in rule.observations]
    chosen = draw.integers(0, 30, 30)
    truth, found = (np.isin(labels[chosen][:, columns], rule.present) for labels in (references, hypotheses))
    for weighted, average in ((False, "micro"), (True, "weighted")):
        expected = f1_score(truth, found, average=average, zero_division=0.0)
        assert statistics.f1(rows[chosen].sum(axis=0), weighted) == pytest.approx(expected)


def test_scores_without_a_denominator_are_undefined():
    nothing = statistics.label_statistics(np.zeros((3, 14), int), np.zeros((3, 14), int), CONVENTIONS["llm-rg4"])
    assert np.isnan(statistics.f1(nothing.sum(axis=0))) and np.isnan(statistics.f1(nothing.sum(axis=0), weighted=True))
    pair = Pair(nothing, nothing, statistics.f1)
    found = differences({"sn": {"f1": pair}}, 50)["sn"]["f1"]
    assert (found.first, found.difference, found.low, found.p, found.undefined) == (None, None, None, None, 50)


def means(first: np.ndarray, second: np.ndarray) -> Pair:
    return Pair(statistics.mean_statistics(first), statistics.mean_statistics(second), statistics.mean)


@given(st.integers(0, 2**31), st.integers(1, 30))
def test_identical_runs_do_not_differ(seed, units):
    values = np.random.default_rng(seed).random(units)
    found = differences({"sn": {"s": means(values, values)}, "mn": {"s": means(values, values)}}, 200, seed)
    assert list(found) == ["sn", "mn", "mean"]
    for scores in found.values():
        assert (scores["s"].difference, scores["s"].p) == (0.0, 1.0)
        assert scores["s"].low <= 0.0 <= scores["s"].high


@given(st.integers(0, 2**31))
def test_exchanging_the_runs_turns_the_sign(seed):
    first, second = np.random.default_rng(seed).random((2, 40))
    one = differences({"sn": {"s": means(first, second)}}, 300, seed)["sn"]["s"]
    two = differences({"sn": {"s": means(second, first)}}, 300, seed)["sn"]["s"]
    assert (one.difference, one.low, one.high) == pytest.approx((-two.difference, -two.high, -two.low))
    assert one.p == pytest.approx(two.p)


def test_a_known_difference_is_found_and_a_resampling_is_repeatable():
    draw = np.random.default_rng(3)
    first = draw.random(200)
    pairs = {"sn": {"s": means(first, first + 0.02 + 0.01 * draw.standard_normal(200))}}
    found = differences(pairs, 500, 5)["sn"]["s"]
    assert found.p == pytest.approx(1 / 501) and found.low > 0.015 and found.high < 0.025
    assert differences(pairs, 500, 5)["sn"]["s"] == found
    assert differences(pairs, 500, 6)["sn"]["s"] != found


def test_p_values_equal_those_of_all_exchanges():
    """Eight units have 256 exchanges: the p value estimates the share of those at least as extreme."""
    draw = np.random.default_rng(1)
    first, second = draw.random((2, 8))
    gaps = second - first
    signs = 1 - 2 * ((np.arange(256)[:, None] >> np.arange(8)) & 1)
    exact = (np.abs((signs * gaps).mean(axis=1)) >= abs(gaps.mean()) - 1e-12).mean()
    assert differences({"sn": {"s": means(first, second)}}, 20_000)["sn"]["s"].p == pytest.approx(exact, abs=0.015)


def test_the_mean_over_contexts_is_the_mean_of_their_scores():
    draw = np.random.default_rng(2)
    runs = {context: means(*draw.random((2, 30))) for context in ("sn", "mw")}
    found = differences({context: {"s": pair} for context, pair in runs.items()}, 500)
    assert found["mean"]["s"].first == pytest.approx((found["sn"]["s"].first + found["mw"]["s"].first) / 2)
    assert found["mean"]["s"].high - found["mean"]["s"].low < found["sn"]["s"].high - found["sn"]["s"].low


def test_holm_by_hand():
    """Four tests: 0.01 x 4; 0.02 x 3; 0.03 x 2 stays above; 0.04 x 1 may not fall below the one before."""
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([None, 0.5, 0.9]) == [None, 1.0, 1.0] and holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_lowers_and_keeps_the_order(values: list[float]):
    adjusted = holm(values)
    assert all(after is not None and p <= after <= 1 for p, after in zip(values, adjusted, strict=True))
    assert [after for _, after in sorted(zip(values, adjusted, strict=True))] == sorted(adjusted)
