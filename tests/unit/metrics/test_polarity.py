from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.commitments.anchor import FINDINGS, Anchor
from pacer.core.errors import DataError
from pacer.metrics.polarity import polarity_agreement, polarity_matrix

states = st.lists(st.lists(st.integers(0, 3), min_size=13, max_size=13), min_size=1, max_size=8)


def anchor_of(row: list[int]) -> Anchor:
    return Anchor(*(tuple(f for f, state in zip(FINDINGS, row, strict=True) if state == k) for k in range(3)))


@given(states)
def test_the_matrix_inverts_the_anchors(rows):
    assert polarity_matrix([anchor_of(row) for row in rows]).tolist() == rows
    assert polarity_matrix([anchor_of(row).as_dict() for row in rows]).tolist() == rows


@given(states, st.randoms())
def test_agreement_with_itself_is_full(rows, draw):
    anchors = [anchor_of(row) for row in rows]
    scores = polarity_agreement(anchors, anchors)
    assert scores["agreement"] == 1.0
    assert all(scores[key] in (1.0, None) for key in ("stated_agreement", "positive_f1", "negative_f1", "uncertain_f1"))
    other = [anchor_of([draw.randint(0, 3) for _ in FINDINGS]) for _ in rows]
    mixed = polarity_agreement(anchors, other)
    assert mixed["agreement"] == pytest.approx(float(np.mean(np.array(rows) == polarity_matrix(other))))
    assert np.sum(mixed["confusion"]) == len(rows) * 13


def test_a_worked_example():
    reference = Anchor(("cardiomegaly", "edema"), ("pneumothorax",))
    generated = Anchor(("cardiomegaly",), ("edema",), ("pneumothorax",))
    scores = polarity_agreement([reference], [generated])
    assert scores["agreement"] == pytest.approx(11 / 13)
    assert scores["stated_agreement"] == pytest.approx(1 / 3)
    assert scores["positive_f1"] == pytest.approx(2 / 3)
    assert scores["negative_f1"] == 0.0 and scores["uncertain_f1"] == 0.0
    assert polarity_agreement([Anchor()], [Anchor()])["positive_f1"] is None


@pytest.mark.parametrize(
    "anchor, problem",
    [
        ({"positive": ["hernia"], "negative": [], "uncertain": []}, "not in the vocabulary"),
        ({"positive": ["edema"], "negative": ["edema"], "uncertain": []}, "edema stands under two polarities"),
    ],
)
def test_malformed_anchors_are_refused(anchor, problem):
    with pytest.raises(DataError, match=problem):
        polarity_agreement([Anchor()], [anchor])


def test_unpaired_lists_are_refused():
    with pytest.raises(DataError, match="1 reference and 2 generated"):
        polarity_agreement([Anchor()], [Anchor(), Anchor()])
