"""Planted models that do not look at their sources are called so, and one that looks is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.comparison.source_sensitivity import source_gains, warnings
from pacer.core.io import write_jsonl
from pacer.metrics.clinical import clinical_efficacy
from pacer.metrics.inputs import ScoreInputs
from pacer.metrics.scoring import score_predictions
from pacer.metrics.variety import variety_scores

CASES = 40
Texts = list[str]


def reports(words: Texts, seed: int) -> Texts:
    draw = np.random.default_rng(seed)
    return [" ".join([*draw.choice(words, 9), "."]) for _ in range(CASES)]


def lines(context: str, texts: Texts) -> list[dict]:
    return [{"record_id": f"{context}-{number}", "report": text} for number, text in enumerate(texts)]


@pytest.fixture
def scored(tmp_path, words, chexbert_directory, one_meteor) -> Callable[[Texts, Texts], tuple[dict, pl.DataFrame]]:
    """Scores and cases of one context, from a model's reports of the cases' own sources and of another patient's."""
    references, train = reports(words, 0), reports(words, 1)
    records, known = (
        pl.DataFrame(
            {
                "record_id": [f"sn-{number}" for number in range(CASES)],
                "context": "sn",
                "study_id": [str(number) for number in range(CASES)],
                "subject_id": [str(number) for number in range(CASES)],
                "report": texts,
                "report_raw": texts,
                "findings_original": [None] * CASES,
            }
        )
        for texts in (references, train)
    )

    def score(own: Texts, other: Texts) -> tuple[dict, pl.DataFrame]:
        write_jsonl(tmp_path / "sn.jsonl", lines("sn", own))
        write_jsonl(tmp_path / "controls/another_patient/sn.jsonl", lines("sn", other))
        inputs = ScoreInputs(chexbert_directory())
        scores = score_predictions(records, tmp_path, tmp_path / "scores", inputs, train_records=known)
        return scores, pl.read_parquet(tmp_path / "scores/cases.parquet")

    return score


def test_planted_models_are_called_so_and_one_that_looks_is_not(scored, words) -> None:
    references, train = reports(words, 0), reports(words, 1)
    models = {
        "identical": (references[:1] * CASES, references[:1] * CASES),
        "copied from the training split": (train, train[1:] + train[:1]),
        "stay the same with another patient's sources": (references[1:] + references[:1],) * 2,
        "not shown to be above F1 with another patient's": (reports(words, 2), reports(words, 3)),
    }
    for sentence, (own, other) in models.items():
        found = warnings(*scored(own, other), "llm-rg4")
        assert any(sentence in line for line in found) and all("SN" in line for line in found)
    assert len(found) == 1, "what differs from case to case and is copied from nowhere has one fault"
    assert warnings(*scored(references, references[1:] + references[:1]), "llm-rg4") == []


def test_the_gain_is_that_of_the_scores(scored, words) -> None:
    references = reports(words, 0)
    scores, cases = scored(references, reports(words, 3))
    gain = source_gains(cases, "llm-rg4")["sn"]
    assert (gain.first, gain.second) == pytest.approx((scores["controls"]["another_patient"]["sn"]["f1"], 1.0))
    labels = [np.array(cases[f"{side}_labels"].to_list()) for side in ("reference", "another_patient")]
    assert gain.first == pytest.approx(clinical_efficacy(*labels)["f1"])
    assert scores["controls"]["another_patient"]["sn"]["unchanged_share"] == 0.0
    assert source_gains(cases.drop("another_patient_labels"), "llm-rg4") == {}


@given(st.lists(st.sampled_from(["a", "b c", "d e f"]), min_size=1, max_size=8), st.sets(st.sampled_from(["a", "b c"])))
def test_shares_by_hand(texts: Texts, train: set[str]) -> None:
    found = variety_scores(texts[::-1], texts, train)
    assert found["distinct_share"] * len(texts) == pytest.approx(len(set(texts)))
    assert found["most_frequent_share"] * len(texts) == pytest.approx(max(map(texts.count, texts)))
    assert found["copied_share"] * len(texts) == pytest.approx(sum(map(texts.count, train)))
    assert found["length_ratio"] == 1 and "copied_share" not in variety_scores(texts, texts, None)
    assert all(found[name] == found[f"reference_{name}"] for name in ("distinct_share", "copied_share"))
    assert variety_scores([""], ["a"], None)["length_ratio"] is None
