"""Planted models that do not look at their sources are called so, and one that looks is not."""

from collections.abc import Callable
from itertools import product

import numpy as np
import polars as pl
import pytest

from pacer.core.io import write_jsonl
from pacer.metrics.signature import ScoreInputs
from pacer.metrics.statistics.intervals import at_chance, warnings
from tests.support.metrics import score_predictions

CASES = 40
Texts = list[str]


def reports(words: Texts, seed: int) -> Texts:
    draw = np.random.default_rng(seed)
    return [" ".join([*draw.choice(words, 9), "."]) for _ in range(CASES)]


def lines(context: str, texts: Texts) -> list[dict]:
    return [{"record_id": f"{context}-{number}", "report": text} for number, text in enumerate(texts)]


@pytest.fixture
def scored(tmp_path, words, chexbert_directory, quick_meteor) -> Callable[[Texts, Texts], tuple[dict, pl.DataFrame]]:
    """Scores and cases of one context, from a model's reports of the cases' own sources and of another patient's."""
    references = reports(words, 0)
    numbers = [str(number) for number in range(CASES)]
    records = pl.DataFrame(
        {
            "record_id": [f"sn-{number}" for number in numbers],
            "context": "sn",
            "study_id": numbers,
            "subject_id": numbers,
            "report": references,
            "report_raw": references,
        }
    ).with_columns(findings_original=pl.lit(None, pl.String))

    def score(own: Texts, other: Texts) -> tuple[dict, pl.DataFrame]:
        write_jsonl(tmp_path / "sn.jsonl", lines("sn", own))
        write_jsonl(tmp_path / "controls/another_patient/sn.jsonl", lines("sn", other))
        inputs = ScoreInputs(chexbert_directory())
        scores = score_predictions(records, tmp_path, tmp_path / "scores", inputs)
        return scores, pl.read_parquet(tmp_path / "scores/cases.parquet")

    return score


def test_planted_models_are_called_so_and_one_that_looks_is_not(scored, words) -> None:
    references = reports(words, 0)
    models = {
        "identical": (references[:1] * CASES, references[:1] * CASES),
        "stay the same with another patient's sources": (references[1:] + references[:1],) * 2,
        "not shown to be above F1 with another patient's": (reports(words, 2), reports(words, 3)),
    }
    for sentence, (own, other) in models.items():
        found = warnings(*scored(own, other), "llm-rg4")
        assert any(sentence in line for line in found) and all("SN" in line for line in found)
    assert len(found) == 1, "what differs from case to case has one fault"
    assert warnings(*scored(references, references[1:] + references[:1]), "llm-rg4") == []


def test_commitments_and_reports_are_held_against_the_references_of_other_patients() -> None:
    """Both agree in sn, neither in mn: each case has one of two findings, and in mn texts state the other one."""
    numbers = [str(number) for number in range(2 * CASES)]
    stated = {"sn": [["edema"], ["fracture"]] * CASES, "mn": [["fracture"], ["edema"]] * CASES}
    frames = [
        pl.DataFrame({"subject_id": numbers, "study_id": numbers, "reference_positive": stated["sn"]}).with_columns(
            pl.lit(context).alias("context"),
            pl.concat_str(pl.lit(context), "subject_id").alias("record_id"),
            *(pl.Series(f"{side}_positive", stated[context]) for side in ("anchor", "report")),
            *(
                pl.lit([], pl.List(pl.String)).alias(f"{side}_{polarity}")
                for side, polarity in product(("reference", "anchor", "report"), ("negative", "uncertain"))
            ),
        )
        for context in stated
    ]
    cases = pl.concat(frames)
    assert at_chance(cases, "llm-rg4") == {"Commitments": ["MN"], "Reports": ["MN"]}
    unlisted = cases.with_columns(pl.lit(None, pl.List(pl.String)).alias("anchor_positive"))
    assert at_chance(unlisted, "llm-rg4") == {"Reports": ["MN"]}
    assert at_chance(cases.with_columns(pl.col("anchor_negative").alias("reference_positive")), "llm-rg4") == {}
