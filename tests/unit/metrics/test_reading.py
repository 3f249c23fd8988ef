"""Scores of probabilities of findings, against figures by hand and by scikit-learn."""

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from pacer.data.findings import FINDINGS
from pacer.metrics.commitments import reading_scores
from pacer.metrics.statistics.intervals import reliability
from tests.support.cases import listed_cases


def cases(rows: int = 400, threshold: float | None = 0.3) -> pl.DataFrame:
    draw = np.random.default_rng(3)
    chance = draw.uniform(0, 1, (rows, 13)).round(2)
    there = draw.uniform(0, 1, (rows, 13)) < chance
    nothing = pl.Series([[]] * rows, dtype=pl.List(pl.String))
    return pl.DataFrame(
        {
            "subject_id": [f"p{row // 3}" for row in range(rows)],
            "present": chance.tolist(),
            "reference_positive": [[f for f, has in zip(FINDINGS, row, strict=True) if has] for row in there],
            "reference_negative": nothing,
            "reference_uncertain": nothing,
            "threshold": pl.Series([threshold] * rows, dtype=pl.Float64),
        }
    )


@pytest.mark.parametrize(("chances", "positive", "area"), listed_cases(__file__, "areas"))
def test_area_under_the_curve(chances: list[float], positive: list[int], area: float | None) -> None:
    """The area of edema; the other findings are never there."""
    present = np.zeros((len(chances), 13))
    present[:, FINDINGS.index("edema")] = chances
    there = pl.Series([["edema"] * one for one in positive])
    table = cases(len(chances)).with_columns(present=pl.Series(present.tolist()), reference_positive=there)
    assert reading_scores(table)["read_auroc"] == area


@pytest.mark.parametrize("threshold", [0.3, None])
def test_scores_are_those_of_scikit_learn(threshold: float | None) -> None:
    table = cases(threshold=threshold)
    chance = np.array(table["present"].to_list())
    there = np.array([[f in row for f in FINDINGS] for row in table["reference_positive"]])
    stated = chance >= (threshold or 0.5)
    scores = reading_scores(table)
    assert scores["read_f1"] == pytest.approx(2 * (stated & there).sum() / (stated.sum() + there.sum()))
    assert scores["read_auroc"] == pytest.approx(roc_auc_score(there, chance, average="macro"))
    assert scores["read_brier"] == pytest.approx(brier_score_loss(there.ravel(), chance.ravel()))
    assert reading_scores(table.drop("present")) == {}


def test_reliability_of_honest_probabilities() -> None:
    """Ten bins of equal mass, on the diagonal within their intervals."""
    curve = reliability(cases())
    assert len(curve.probabilities) == 10
    assert sum(one.low <= at <= one.high for at, one in zip(curve.probabilities, curve.shares, strict=True)) >= 8
