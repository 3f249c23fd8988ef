"""A reward for reinforcement learning: ``exact_f1`` of one report."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from pacer.core.errors import DataError
from pacer.metrics.ledger import IS_EXACT, compared, read_findings
from pacer.tables.generated import without_thoughts
from pacer.tables.values import shown

#: The reward if neither the completion nor its reference affirms a finding, but the completion has
#: words.
NOTHING_AFFIRMED = 1.0


def reward(
    completions: Sequence[str | Sequence[dict]], references: Sequence[str], **_: object
) -> list[float]:
    """Return the reward of each completion, from 0 to 1, as TRL's trainers call it: with the
    completions and the columns of the data set by their names.

    It is F1 of affirmed findings, of which one counts only if the completion has each side,
    severity and course that the reference names. If neither text affirms a finding, it is
    :data:`NOTHING_AFFIRMED`; a completion without words gets 0.

    Args:
        completions: texts, or lists of messages, of which the content of the last one counts.
            The thoughts of a reasoning model are taken out, as in scoring.
        references: the reference report of each completion, the data set's column ``references``.

    Raises:
        DataError: the numbers of completions and references differ, or one has no text.
    """
    if isinstance(completions, str) or len(completions) != len(references):
        raise DataError(
            "pacer.reward: expected as many completions as references, each in a list; got "
            f"{shown(completions)} and {shown(references)}"
        )
    texts = [without_thoughts(_text_of(each, row)) for row, each in enumerate(completions)]
    for row, reference in enumerate(references):
        if not isinstance(reference, str):
            raise DataError(f"pacer.reward: reference {row} is {shown(reference)}, expected text")
    rows = compared(read_findings(references), read_findings(texts))
    stated, wanted = pl.col("report_state") == "positive", pl.col("reference_state") == "positive"
    hits, given, expected = (
        np.bincount(rows.filter(chosen)["row"], minlength=len(texts))
        for chosen in (IS_EXACT, stated, wanted)
    )
    rewards = []
    for text, hit, total in zip(texts, hits, given + expected, strict=True):
        value = 2 * hit / total if total else NOTHING_AFFIRMED
        rewards.append(float(value) if text.strip() else 0.0)
    return rewards


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
