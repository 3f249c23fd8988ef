"""Agreement in side, severity and course, over findings that reference and report both affirm."""

from __future__ import annotations

import polars as pl
import pytest

from pacer.metrics.attributes import attribute_counts

#: Reference, report -> agreed side, severity and course, then those that the reference names.
CASES = [
    ("small left effusion .", "small left effusion .", [1, 1, 0, 1, 1, 0]),
    ("small left effusion .", "small right effusion .", [0, 1, 0, 1, 1, 0]),
    ("small left effusion .", "effusion .", [0, 0, 0, 1, 1, 0]),
    ("effusion .", "large right effusion , new .", [0, 0, 0, 0, 0, 0]),
    ("mild to moderate edema , worse .", "moderate edema , stable .", [0, 1, 0, 0, 1, 1]),
    ("moderate edema .", "mild edema . moderate edema .", [0, 0, 0, 0, 1, 0]),
    ("bilateral effusions .", "left effusion .", [0, 0, 0, 1, 0, 0]),
    ("large left effusion .", "no effusion .", [0, 0, 0, 0, 0, 0]),
    ("left effusion . mild edema .", "right effusion . mild edema .", [0, 1, 0, 1, 1, 0]),
]


@pytest.mark.parametrize(("reference", "report", "counts"), CASES)
def test_what_the_reference_names_is_compared(reference: str, report: str, counts: list[int]) -> None:
    assert attribute_counts(pl.DataFrame({"reference": [reference], "hypothesis": [report]})) == [counts]
