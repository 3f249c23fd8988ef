"""A reward for reinforcement learning: how well the findings of one report agree with its
reference."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from pacer.core.errors import DataError
from pacer.core.machine import check_not_forked
from pacer.metrics.ledger import compared, read_findings
from pacer.tables.generated import without_thoughts
from pacer.tables.values import shown

#: How much of a finding is right, by its verdict; the rest of it is wrong.
_RIGHT = {"correct": 1.0, "partly": 0.5, "opposite": 0.0, "missed": 0.0, "invented": 0.0}
#: Added to the right findings of every report, so that reports without any do not all earn 0.
ADDED = 0.5


def reward(
    completions: Sequence[str | Sequence[dict]], references: Sequence[str], **_: object
) -> list[float]:
    """Return the reward of each completion, from 0 to 1, as TRL's trainers call it: with the
    completions and the columns of the data set by their names.

    It is (right + 1/2) / (right + wrong + 1/2). A finding is right if both texts affirm it, or
    leave it uncertain, and the completion has each side, severity and course that the reference
    names. It is half right and half wrong if one of these is contradicted or left out, or if only
    one text leaves it uncertain. It is wrong if it is missed or invented, or if one text affirms
    what the other denies. Findings that are only denied do not count. A completion without letters
    and digits gets 0.

    Args:
        completions: texts, or lists of messages, of which the content of the last one counts.
            The thoughts of a reasoning model are taken out, as in scoring.
        references: the reference report of each completion, the data set's column ``references``.

    Raises:
        DataError: the numbers of completions and references differ, or one has no text.
        PacerError: the process was forked from one that has used PACER.
    """
    check_not_forked("pacer.reward")
    if isinstance(completions, str) or len(completions) != len(references):
        raise DataError(
            "pacer.reward: expected as many completions as references, each in a list; got "
            f"{shown(completions)} and {shown(references)}"
        )
    texts = [without_thoughts(_text_of(each, row)) for row, each in enumerate(completions)]
    for row, reference in enumerate(references):
        if not isinstance(reference, str):
            raise DataError(f"pacer.reward: reference {row} is {shown(reference)}, expected text")
    right, counted = right_findings(references, texts)
    rewards = (right + ADDED) / (counted + ADDED)
    return [
        float(one) if any(map(str.isalnum, text)) else 0.0
        for text, one in zip(texts, rewards, strict=True)
    ]


def right_findings(
    references: Sequence[str], texts: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each text how many findings are right, and how many are right or wrong."""
    rows = compared(read_findings(references), read_findings(texts)).drop_nulls("verdict")
    both_deny = (pl.col("verdict") == "correct") & (pl.col("reference_state") == "negative")
    rows = rows.filter(~both_deny)
    right = rows["verdict"].replace_strict(_RIGHT, return_dtype=pl.Float64)
    return (
        np.bincount(rows["row"], right, minlength=len(texts)),
        np.bincount(rows["row"], minlength=len(texts)),
    )


def _text_of(completion: Any, row: int) -> str:
    """Return a completion that is a text, or the content of the last of its messages: a text, a
    list of parts, or None. Raises a DataError if it is anything else."""
    if isinstance(completion, str):
        return completion
    try:
        content = completion[-1]["content"]
        if isinstance(content, list):
            content = " ".join(part["text"] for part in content)
    except (IndexError, KeyError, TypeError):
        content = completion
    if content is None:
        return ""
    if not isinstance(content, str):
        raise DataError(
            f"pacer.reward: completion {row} is {shown(completion)}, expected a text or a list of "
            "messages, the last one with a content"
        )
    return content
