"""RAGPT on the frozen parent: missing sources generated from retrieved neighbours, and prompts that know them.

Adapted from RAGPT (Lang et al., 2025) as PACER's appendix "Incomplete-Multimodal Baseline Adaptations" says;
``docs/experiments.md`` says what of it is our reading. Everything works on compressed sources (width d_v), before the
parent's projection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pacer.baselines.adapted import Adapted
from pacer.baselines.bank import BankManifest
from pacer.config import baselines as params
from pacer.model.interface import SourceTokens
from pacer.model.pacer import Batch, Embedded, Pacer


@dataclass
class RetrievedBatch(Batch):
    """A batch with the compressed sources of each sample's k nearest complete train studies.

    Attributes:
        neighbours: [B, k, 3, Q, d_v], the nearest first.
    """

    neighbours: Tensor | None = None


class MissingGenerator(nn.Module):
    r"""Tokens of a missing source from those of its neighbours (published "missing modality generator").

        F = mean_k neighbours;  F' = Re IFFT(W * FFT(F));  out = W_o LN(F + Dropout(F')) + b_o

    The transform goes along the tokens. W [Q, d_v] is complex and starts as the unit complex normal.

    Args:
        num_tokens: Q. width: d_v. dropout: of F'.
    """

    def __init__(self, num_tokens: int, width: int, dropout: float):
        super().__init__()
        # real and imaginary part in the last dimension: all trained parameters have one type
        self.filter = nn.Parameter(torch.view_as_real(torch.randn(num_tokens, width, dtype=torch.cfloat)).clone())
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
    """Prompt tokens of a source that asks its neighbours (published "context-aware prompter").

    One head: queries are the source's own tokens, keys and values the neighbours', all maps shared by the sources; the
    answers are averaged down to ``tokens`` prompts.
    """

    def __init__(self, width: int, tokens: int):
        super().__init__()
        self.tokens = tokens
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, own: Tensor, neighbours: Tensor) -> Tensor:
        """own [B, Q, d_v], neighbours [B, k, Q, d_v] -> [B, tokens, d_v]."""
        context = neighbours.flatten(1, 2)
        scores = self.query(own) @ self.key(context).transpose(1, 2) / math.sqrt(own.shape[-1])
        answers = scores.softmax(-1) @ self.value(context)
        return F.adaptive_avg_pool1d(answers.transpose(1, 2), self.tokens).transpose(1, 2)


class Added(nn.Module):
    """RAGPT's modules: a generator each for the lateral and the prior slot, the prompter, and its projection to d."""

    def __init__(self, num_tokens: int, d_vision: int, d_model: int, prompt_tokens: int, dropout: float):
        super().__init__()
        self.lateral = MissingGenerator(num_tokens, d_vision, dropout)
        self.prior = MissingGenerator(num_tokens, d_vision, dropout)
        self.prompts = ContextPrompts(d_vision, prompt_tokens)
        self.project = nn.Linear(d_vision, d_model)

    def fill(self, compressed: Tensor, neighbours: Tensor, availability: Tensor) -> Tensor:
        """Compressed sources [B, 3, Q, d_v] with generated ones in the missing slots; what is there stays."""
        slots = [compressed[:, 0]]
        for column, generate in enumerate((self.lateral, self.prior)):
            rows, own = (~availability[:, column]).nonzero().squeeze(1), compressed[:, column + 1]
            if len(rows):
                made = generate(neighbours[rows, :, column + 1].to(own.dtype))
                own = own.index_copy(0, rows, made.to(own.dtype))
            slots.append(own)
        return torch.stack(slots, dim=1)

    def prompt(self, filled: Tensor, neighbours: Tensor) -> Tensor:
        """Prompts [B, 3 * prompt_tokens, d] of the frontal, lateral and prior slot."""
        own = [self.prompts(filled[:, s], neighbours[:, :, s].to(filled.dtype)) for s in range(3)]
        return self.project(torch.cat(own, dim=1))


@dataclass(frozen=True)
class FilledTokens(SourceTokens):
    """Source tokens of ``filled`` compressed sources [B, 3, Q, d_v]."""

    filled: Tensor


class RAGPT(Adapted):
    """The parent with all slots filled, and with prompts behind the prefix's BOS.

    The prompts' places are the first tokens of the text before the image (:func:`with_prompt_places`). Where no source
    is missing the visual tokens are the parent's.
    """

    def __init__(self, parent: Pacer, own: params.RAGPT):
        num_queries, d_vision = parent.interface.queries.shape
        d_model = parent.language.config.hidden_size
        super().__init__(parent, Added(num_queries, d_vision, d_model, own.prompt_tokens, own.dropout))

    def fuse(self, compressed: Tensor, batch: Batch) -> FilledTokens:
        """The source tokens of filled slots."""
        assert isinstance(batch, RetrievedBatch) and batch.neighbours is not None
        filled = self.added.fill(compressed, batch.neighbours, batch.availability)
        fused = self.interface.fuse(filled, torch.ones_like(batch.availability))
        return FilledTokens(fused.tokens, fused.fused, filled)

    def embed(self, batch: Batch, frontal_only: bool = False) -> Embedded:
        """Input embeddings with prompts and visual tokens in their places."""
        assert isinstance(batch, RetrievedBatch) and not frontal_only
        embedded = super().embed(batch)
        assert isinstance(embedded.sources, FilledTokens)
        prompts = self.added.prompt(embedded.sources.filled, batch.neighbours).to(embedded.inputs.dtype)
        inputs = torch.cat([embedded.inputs[:, :1], prompts, embedded.inputs[:, 1 + prompts.shape[1] :]], dim=1)
        return embedded._replace(inputs=inputs)


class TrainedRAGPT(params.RAGPT):
    """Settings of a checkpoint, and the bank that it was trained with."""

    made_with: BankManifest

    @property
    def places(self) -> int:
        """Prompt tokens of all three sources."""
        return 3 * self.prompt_tokens
