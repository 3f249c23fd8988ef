"""The floor without a model: whose report stands in for a record's own."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
import torch

from pacer.core.errors import DataError
from pacer.decoding import nearest
from pacer.decoding.nearest import nearest_reports
from tests.support.made_records import few_records

ANGLES = {"f0.png": 0.0, "f1.png": 0.5, "f2.png": 1.0, "f3.png": 1.5, "f4.png": 1.5}
ANGLES |= {"f5.png": 0.45, "f6.png": 1.4, "f7.png": 0.1}
RECORDS = few_records(".png").filter(pl.col("context").is_in(["sn", "mn"]))
TRAIN, TEST = (RECORDS.filter(pl.col("frontal").is_in(list(ANGLES)[part])) for part in (slice(5), slice(5, 8)))
REPORTS = dict(RECORDS.select("record_id", "report").iter_rows())


class Store:
    """States of two depths and two patches, of which the last depth's mean has the image's angle and any length."""

    def depth_states(self, images: Sequence[str]) -> torch.Tensor:
        angle = torch.tensor(ANGLES[images[0]])
        state = torch.stack([angle.cos(), angle.sin()]) * (1 + 9 * angle)
        return torch.stack([torch.zeros(2, 2), torch.stack([state * 0.5, state * 1.5])])[None]  # [1, K, N, d]


def expected(near: dict[int, int], contexts: tuple[str, ...] = ("sn", "mn")) -> dict[str, str]:
    return {f"{c}-{number}": REPORTS[f"{c}-{other}"] for c in contexts for number, other in near.items()}


def test_the_nearest_is_by_direction_and_in_the_same_context() -> None:
    assert nearest_reports(TRAIN, TEST, Store()) == expected({5: 1, 6: 3, 7: 0})


def test_a_patient_is_not_asked_for_their_own_report() -> None:
    owner = pl.when(pl.col("frontal") == "f1.png").then(pl.lit(TEST["subject_id"][0])).otherwise(pl.lit("x"))
    same = TRAIN.with_columns(subject_id=owner)
    found = nearest_reports(same, TEST.filter(frontal="f5.png"), Store())
    assert found == expected({5: 0})


def test_a_large_split_is_thinned_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "MOST", 3)
    assert nearest_reports(TRAIN, TEST, Store()) == expected({5: 0, 6: 4, 7: 0})  # of f0, f2 and f4


def test_a_context_without_training_records_is_refused() -> None:
    with pytest.raises(DataError, match="context mn has no training record; leave nearest_report out"):
        nearest_reports(TRAIN.filter(context="sn"), TEST, Store())
