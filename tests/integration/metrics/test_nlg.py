from __future__ import annotations

import random

import polars as pl
import pytest
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from pacer.metrics.nlg import language_scores, rouge_rows, with_language

pytestmark = pytest.mark.usefixtures("quick_meteor")


def texts(seed: int, count: int = 30) -> dict[str, str]:
    draw = random.Random(seed)
    words = ["the", "heart", "lungs", "is", "clear", "normal", "no", "effusion", "pneumothorax", "left", "small", "."]
    return {f"sn-{i}": " ".join(draw.choices(words, k=draw.randint(5, 40))) for i in range(count)}


def as_lists(single: dict[str, str]) -> dict[str, list[str]]:
    return {key: [value] for key, value in single.items()}


def nlg_scores(references: dict[str, str], hypotheses: dict[str, str]) -> dict[str, float | None]:
    texts = {"reference": list(references.values()), "hypothesis": list(hypotheses.values())}
    return language_scores(with_language(pl.DataFrame(texts)))


def test_equals_the_original_package():
    references, hypotheses = texts(1), texts(2)
    scores = nlg_scores(references, hypotheses)
    pairs = as_lists(references), as_lists(hypotheses)
    assert list(scores) == ["bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "meteor", "cider"]
    assert scores["rougeL"] == pytest.approx(Rouge().compute_score(*pairs)[0])
    assert scores["cider"] == Cider().compute_score(*pairs)[0]


def test_texts_are_compared_as_they_are():
    assert rouge_rows(["the heart is normal ."], ["the heart is normal."]) != [1.0]
    assert rouge_rows(["the heart is normal ."], ["The heart is normal ."]) != [1.0]
    assert rouge_rows(["the heart is  normal ."], ["the heart is normal ."]) != [1.0]
    assert rouge_rows(["", "a b"], ["", ""]) == [1.0, 0.0]


def test_empty_hypotheses_have_a_score():
    references = texts(1, 4)
    scores = nlg_scores(references, dict.fromkeys(references, ""))
    assert all(value == pytest.approx(0.0, abs=1e-6) for value in scores.values())


def test_cider_of_a_single_pair_is_undefined():
    scores = nlg_scores({"a": "the heart is normal ."}, {"a": "the heart is normal ."})
    assert scores["cider"] is None and scores["rougeL"] == 1.0
