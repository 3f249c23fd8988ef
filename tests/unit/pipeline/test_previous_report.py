"""What the previous report contributes, from the cases of a scored run (bench/evidence.py)."""

from fractions import Fraction
from typing import Any

import evidence
import polars as pl
import pytest

from pacer.core.findings import FINDINGS
from tests.support.cases import listed_cases

#: The letters of the cases.
NAMES = {"e": "edema", "f": "fracture", "p": "pneumonia", "c": "cardiomegaly"}
assert set(NAMES.values()) <= set(FINDINGS)


@pytest.mark.parametrize("case", listed_cases(__file__, "sources"))
def test_scores_of_the_previous_report(case: dict[str, Any]) -> None:
    texts = case["texts"]
    count = len(texts["reference"].split())
    lists = {
        f"{side}_positive": pl.Series(
            [
                None if one == "?" else [NAMES[letter] for letter in one.strip("-")]
                for one in texts.get(side, " ?" * count).split()
            ],
            dtype=pl.List(pl.String),
        )
        for side in ("reference", "report", "prior", "no_prior")
    }
    found = evidence.previous_scores(pl.DataFrame(lists).with_columns(context=pl.lit("sw")))
    expected = {key: float(Fraction(one)) for key, one in case.get("scores", {}).items()}
    assert found == ({"sw": pytest.approx(expected)} if expected else {})
