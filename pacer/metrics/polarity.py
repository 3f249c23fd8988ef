"""Polarity agreement of commitments: for each finding positive, negative, uncertain, or not mentioned.

Two questions: does the generated commitment say what the reference's says, and does the generated report say what
its own commitment says? Reports are read by the same rules that made the training commitments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from pacer.commitments.anchor import FINDINGS, POLARITIES
from pacer.core.errors import DataError

#: The states of a finding, in the order of the confusion matrix.
STATES: tuple[str, ...] = (*POLARITIES, "absent")
_ABSENT = STATES.index("absent")


class Agreement(TypedDict):
    """``agreement``: share of cells with the same state; ``stated_agreement``: the same over the cells where the
    reference states something (``None`` when it states nothing); ``positive_f1``, ``negative_f1``, ``uncertain_f1``:
    micro F1 of each polarity (``None`` when neither side uses it); ``confusion`` ``[4][4]`` (rows: reference)."""

    agreement: float
    stated_agreement: float | None
    positive_f1: float | None
    negative_f1: float | None
    uncertain_f1: float | None
    confusion: list[list[int]]


def polarity_matrix(anchors: Sequence[Any]) -> np.ndarray:
    """States ``[n, 13]`` (index into :data:`STATES`) of anchors given as objects or mappings of three lists.

    Raises:
        DataError: a finding is unknown or stands under two polarities.
    """
    matrix = np.full((len(anchors), len(FINDINGS)), _ABSENT)
    column = {finding: index for index, finding in enumerate(FINDINGS)}
    for row, anchor in enumerate(anchors):
        for state, polarity in enumerate(POLARITIES):
            for finding in _field(anchor, polarity):
                if finding not in column:
                    raise DataError(f"anchor {row}: {polarity} holds a finding that is not in the vocabulary")
                if matrix[row, column[finding]] not in (_ABSENT, state):
                    raise DataError(f"anchor {row}: {finding} stands under two polarities")
                matrix[row, column[finding]] = state
    return matrix


def polarity_agreement(references: Sequence[Any], hypotheses: Sequence[Any]) -> Agreement:
    """Agreement of two lists of anchors over ``n`` records x 13 findings."""
    if len(references) != len(hypotheses) or not references:
        raise DataError(
            f"{len(references)} reference and {len(hypotheses)} generated anchors; expected as many of "
            "each and at least one"
        )
    expected, found = polarity_matrix(references), polarity_matrix(hypotheses)
    size = len(STATES)
    confusion = np.bincount((expected * size + found).ravel(), minlength=size * size).reshape(size, size)
    stated = expected != _ABSENT
    positive, negative, uncertain = (_f1(confusion, index) for index in range(_ABSENT))
    return Agreement(
        agreement=float((expected == found).mean()),
        stated_agreement=float((expected == found)[stated].mean()) if stated.any() else None,
        positive_f1=positive,
        negative_f1=negative,
        uncertain_f1=uncertain,
        confusion=confusion.tolist(),
    )


def _f1(confusion: np.ndarray, state: int) -> float | None:
    used = int(confusion[state].sum() + confusion[:, state].sum())
    return 2 * int(confusion[state, state]) / used if used else None


def _field(anchor: Any, polarity: str) -> Iterable[str]:
    return anchor[polarity] if isinstance(anchor, Mapping) else getattr(anchor, polarity)
