"""RAGPT on the frozen parent: missing sources generated from retrieved neighbours, and prompts
based on them.

Adapted from RAGPT (Lang et al., 2025) as described in PACER's appendix "Incomplete-Multimodal
Baseline Adaptations"; ``docs/experiments.md`` lists our own interpretations. Everything works on
compressed sources (width d_v), before the parent's projection.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pacer.config import Params
from pacer.config.baselines import RAGPT as RAGPTSettings
from pacer.decoding.generate import Generator
from pacer.decoding.run import OpenGenerator, trained_generator
from pacer.extras.baselines.adapted import Adapted, load_adapted, train_adapted
from pacer.extras.baselines.bank import Retrieval
from pacer.model.batch import Batch, RefinedSources, SourceStates, TrainingBatch
from pacer.model.interface import SourceTokens
from pacer.model.pacer import Embedded
from pacer.model.prompt import PromptIds
from pacer.training.examples import Examples, RecordRow
from pacer.training.run import Inputs, OpenLog

#: Sources with prompts of their own: frontal, lateral, prior.
SOURCES = 3


@dataclass(kw_only=True)
class RetrievedBatch(Batch):
    """A batch with the compressed sources of each sample's k nearest complete train
    examinations."""

    #: [B, k, 3, Q, d_v], the nearest first.
    neighbours: Tensor


@dataclass(kw_only=True)
class RetrievedTrainingBatch(RetrievedBatch, TrainingBatch):
    """Such a batch to learn from."""


class MissingGenerator(nn.Module):
    r"""Generates the tokens of a missing source from those of its neighbours (published "missing
    modality generator").

        F = mean_k neighbours;  F' = Re IFFT(W * FFT(F));  out = W_o LN(F + Dropout(F')) + b_o

    The transform runs along the tokens. W [Q, d_v] is complex, initialised from the unit complex
    normal distribution.

    Args:
        num_tokens: Q.
        width: d_v.
        dropout: of F'.
    """

    def __init__(self, num_tokens: int, width: int, dropout: float):
        super().__init__()
        # real and imaginary part in the last dimension, so that all trained parameters have the
        # same type
        self.filter = nn.Parameter(
            torch.view_as_real(torch.randn(num_tokens, width, dtype=torch.cfloat)).clone()
        )
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, width)

    def forward(self, neighbours: Tensor) -> Tensor:
        """[B, k, Q, d_v] -> [B, Q, d_v]."""
        mean = neighbours.mean(1)
        spectrum = torch.fft.fft(mean, dim=1) * torch.view_as_complex(self.filter)
        filtered = torch.fft.ifft(spectrum, dim=1).real
        return self.out(self.norm(mean + self.dropout(filtered)))


class ContextPrompts(nn.Module):
    """Prompt tokens of a source, by attention to its neighbours (published "context-aware
    prompter").

    There is one head: queries come from the source's own tokens, keys and values from its
    neighbours'. The sources share all maps. The outputs are averaged down to ``tokens`` prompts.
    """

    def __init__(self, width: int, tokens: int):
        super().__init__()
        self.tokens = tokens
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, source: Tensor, neighbours: Tensor) -> Tensor:
        """source [B, Q, d_v], neighbours [B, k, Q, d_v] -> [B, tokens, d_v]."""
        context = neighbours.flatten(1, 2)
        scores = self.query(source) @ self.key(context).transpose(1, 2)
        scores = scores / math.sqrt(source.shape[-1])
        answers = scores.softmax(-1) @ self.value(context)
        return F.adaptive_avg_pool1d(answers.transpose(1, 2), self.tokens).transpose(1, 2)


@dataclass(frozen=True)
class PromptedTokens(SourceTokens):
    """Source tokens of filled slots, with the ``prompts`` [B, P, d] that follow BOS."""

    prompts: Tensor


class RAGPT(Adapted):
    """The parent with all slots filled, and with P prompts after the prefix's BOS.

    A batch has places for the prompts (:func:`with_places`). If no source is missing, visual tokens
    are the parent's.
    """

    name = "ragpt"
    settings_type = RAGPTSettings
    only_in: ClassVar = {"added.lateral.": ("sn", "sw"), "added.prior.": ("sn", "mn")}

    def new_modules(self, settings: RAGPTSettings) -> nn.ModuleDict:
        """Return a generator each for the lateral and the prior slot, the prompter, and its
        projection to d."""
        num_queries, d_vision = self.interface.queries.shape
        modules: dict[str, nn.Module] = {
            name: MissingGenerator(num_queries, d_vision, settings.dropout)
            for name in ("lateral", "prior")
        }
        modules["prompts"] = ContextPrompts(d_vision, settings.prompt_tokens)
        modules["project"] = nn.Linear(d_vision, self.language.config.hidden_size)
        return nn.ModuleDict(modules)

    def fill(self, compressed: Tensor, sources: RefinedSources, neighbours: Tensor) -> Tensor:
        """Return compressed sources [B, 3, Q, d_v] with generated ones in missing slots; the others
        are unchanged."""
        slots = [compressed[:, 0]]
        others = (("lateral", sources.lateral_rows), ("prior", sources.prior_rows))
        for place, (name, present) in enumerate(others, start=1):
            slot = compressed[:, place]
            missing = len(compressed) - (0 if present is None else len(present))
            if missing:
                available = sources.availability[:, place - 1]
                rows = available.int().argsort(stable=True)[:missing]
                own_neighbours = neighbours[:, :, place].index_select(0, rows)
                generated = self.added[name](own_neighbours.to(slot.dtype))
                slot = slot.index_copy(0, rows, generated.to(slot.dtype))
            slots.append(slot)
        return torch.stack(slots, dim=1)

    def source_tokens(self, refined: RefinedSources, batch: Batch) -> PromptedTokens:
        """Return the source tokens of filled slots, and the prompts."""
        assert isinstance(batch, RetrievedBatch)
        filled = self.fill(self.interface.compress(refined), refined, batch.neighbours)
        sources = self.interface(refined, filled=filled)
        answers = [
            self.added["prompts"](filled[:, s], batch.neighbours[:, :, s].to(filled.dtype))
            for s in range(SOURCES)
        ]
        return PromptedTokens(
            **vars(sources), prompts=self.added["project"](torch.cat(answers, dim=1))
        )

    def embed(self, batch: Batch, frontal_only: bool = False) -> Embedded:
        """Return input embeddings [B, T, d] with the prompts at positions 1 to P."""
        assert not frontal_only
        embedded = super().embed(batch)
        assert isinstance(embedded.sources, PromptedTokens)
        inputs = embedded.inputs
        prompts = embedded.sources.prompts
        after = inputs[:, 1 + prompts.shape[1] :]
        return embedded._replace(
            inputs=torch.cat([inputs[:, :1], prompts.to(inputs.dtype), after], dim=1)
        )


def with_places(prompt: PromptIds, places: int) -> PromptIds:
    """Return the ids with zeros at P ``places`` for RAGPT's prompts, right of BOS."""
    return prompt._replace(before=[0] * places + prompt.before)


class RetrievedExamples(Examples):
    """Examples with the neighbours of each record, and with P ``places`` for prompts."""

    def __init__(self, *rest: Any, retrieval: Retrieval, places: int):
        super().__init__(*rest)
        self.retrieval = retrieval
        self.places = places

    def _prompt(self, record: RecordRow, commit: bool) -> PromptIds:
        return with_places(super()._prompt(record, commit), self.places)

    def batch(
        self, rows: Sequence[int] | np.ndarray, commits: Sequence[bool], lambda_q: float
    ) -> RetrievedTrainingBatch:
        """Return the batch of these rows."""
        batch = super().batch(rows, commits, lambda_q)
        frontals = [self.table.row(int(number))["frontal"] for number in rows]
        return RetrievedTrainingBatch(**vars(batch), neighbours=self.retrieval.read(frontals))


class RetrievedGenerator(Generator):
    """Generation with the neighbours of each record."""

    def __init__(self, model: RAGPT, *rest: Any, retrieval: Retrieval):
        super().__init__(model, *rest)
        self.retrieval = retrieval
        self.places = SOURCES * model.settings.prompt_tokens

    def prompt_ids(self, record: RecordRow) -> PromptIds:
        """Return the text ids of the prefix, with places for the prompts."""
        return with_places(super().prompt_ids(record), self.places)

    def batch(self, record: RecordRow, sources: SourceStates | None = None) -> RetrievedBatch:
        """Return the prefix and the target's BOS of one record, with its neighbours."""
        return RetrievedBatch(
            **vars(super().batch(record, sources)),
            neighbours=self.retrieval.read([record["frontal"]]),
        )


def train_ragpt(
    settings: RAGPTSettings,
    params: Params,
    inputs: Inputs,
    bank: Path,
    out: Path,
    open_log: OpenLog,
) -> None:
    """Train RAGPT with the ``bank`` of its parent; see
    :func:`~pacer.extras.baselines.adapted.train_adapted`."""
    retrieval = Retrieval(bank)
    places = SOURCES * settings.prompt_tokens
    make_examples = partial(RetrievedExamples, retrieval=retrieval, places=places)
    train_adapted(
        RAGPT, settings, params, inputs, out, open_log, make_examples, made_with=retrieval.hash
    )


def ragpt_generator(bank: Path) -> OpenGenerator:
    """Return a :func:`~pacer.decoding.run.trained_generator` for RAGPT, with the ``bank`` of its
    parent. Raises a CheckpointError on opening, if the checkpoint was made with another bank."""
    retrieval = Retrieval(bank)
    load = partial(load_adapted, RAGPT, made_with=retrieval.hash)
    return partial(
        trained_generator,
        load=load,
        make_generator=partial(RetrievedGenerator, retrieval=retrieval),
    )
