"""A reward for reinforcement learning: ``exact_f1`` of one report."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from pacer.metrics.ledger import IS_EXACT, compared, read_findings

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
        references: the reference report of each completion, the data set's column ``references``.
    """
    texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    rows = compared(read_findings(references), read_findings(texts))
    stated, wanted = pl.col("report_state") == "positive", pl.col("reference_state") == "positive"
    hits, given, expected = (
        np.bincount(rows.filter(chosen)["row"], minlength=len(texts))
        for chosen in (IS_EXACT, stated, wanted)
    )
    return [
        float((2 * hit / total if total else NOTHING_AFFIRMED) * bool(text.strip()))
        for text, hit, total, _ in zip(texts, hits, given + expected, references, strict=True)
    ]
