"""What a reader's frame of studies must hold, whatever the format."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from pacer.config import Corpus
from pacer.data.studies import STUDY_SCHEMA, study_frame

STUDY: dict[str, Any] = {
    "file": "exams.csv",
    "row": "line 2",
    "id": "s1",
    "split": "train",
    "study_id": "s1",
    "subject_id": "p1",
    "view": "PA",
    "frontal": "a.jpg",
    "lateral": None,
    "findings": "Clear.",
}

CONFIG = Corpus.model_construct(format="table", seed=1, split=None)


def frame(**changes: Any) -> pl.DataFrame:
    study = STUDY | changes
    return pl.DataFrame([study], {name: STUDY_SCHEMA[name] for name in study})


@pytest.mark.parametrize(
    ("changes", "contexts"),
    [
        ({}, ["sn"]),
        ({"lateral": "b.jpg"}, ["sn", "mn"]),
        ({"prior_study_id": "s0"}, ["sn", "sw"]),
        ({"lateral": "b.jpg", "prior_study_id": "s0"}, ["sn", "sw", "mn", "mw"]),
        ({"lateral": "b.jpg", "contexts": ["mn"]}, ["mn"]),
    ],
)
def test_contexts_are_those_that_the_sources_allow(changes: dict[str, Any], contexts: list[str]) -> None:
    assert study_frame(frame(**changes), CONFIG)["contexts"].to_list() == [contexts]
