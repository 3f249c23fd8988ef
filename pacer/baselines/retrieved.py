"""Examples and generation with retrieved neighbours: prompts' places in the text, neighbours in the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pacer.baselines.bank import Retrieval
from pacer.baselines.ragpt import RetrievedBatch
from pacer.decoding.generate import Generator
from pacer.model.pacer import Batch
from pacer.model.prompt import PromptIds
from pacer.training.examples import Examples


def with_prompt_places(prompt: PromptIds, count: int) -> PromptIds:
    """The prompt with ``count`` places in front of the text before the image, right behind BOS."""
    return prompt._replace(before=[0] * count + prompt.before)


def retrieved(batch: Batch, frontals: Sequence[str], retrieval: Retrieval) -> RetrievedBatch:
    """The batch with the neighbours of its frontal images."""
    return RetrievedBatch(**vars(batch), neighbours=retrieval.read(frontals))


class RetrievedExamples(Examples):
    """Examples with the neighbours of each record.

    Args:
        rest: as of the base class. retrieval: the bank. places: of prompts, for all sources.
    """

    def __init__(self, *rest: Any, retrieval: Retrieval, places: int):
        super().__init__(*rest)
        self.retrieval, self.places = retrieval, places

    def prompt_ids(self, record: dict, commit: bool) -> PromptIds:
        """Text of the prefix of one record, behind the prompts."""
        return with_prompt_places(super().prompt_ids(record, commit), self.places)

    def batch(self, rows: Sequence[int] | np.ndarray, commits: Sequence[bool], lambda_q: float) -> Batch:
        """The batch of these rows."""
        frontals = [self.table.row(int(number))["frontal"] for number in rows]
        return retrieved(super().batch(rows, commits, lambda_q), frontals, self.retrieval)


class RetrievedGenerator(Generator):
    """Generation with the neighbours of each record."""

    def __init__(self, retrieval: Retrieval, places: int, *rest: Any):
        super().__init__(*rest)
        self.retrieval, self.places = retrieval, places

    def prompt_ids(self, record: dict[str, Any]) -> PromptIds:
        """Text of the prefix, behind the prompts."""
        return with_prompt_places(super().prompt_ids(record), self.places)

    def batch(self, record: dict[str, Any]) -> Batch:
        """Prefix and the target's BOS of one record, with its neighbours."""
        return retrieved(super().batch(record), [record["frontal"]], self.retrieval)
