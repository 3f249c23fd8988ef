"""Make a right-padded model batch from prompts, targets and stored features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from pacer.core.contexts import availability
from pacer.model.pacer import Batch, SourceStates
from pacer.model.prompt.instruction import PromptIds


class FeatureSource(Protocol):
    """What a batch needs of a feature store (:class:`pacer.features.store.FeatureStore`)."""

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """[B, K, N, d_v]."""
        ...

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """[B, L, d_text] and the mask [B, L]."""
        ...


class Sources(NamedTuple):
    """The sources of one sample; ``lateral`` and ``prior`` count only where ``context`` has them."""

    context: str
    frontal: str
    lateral: str | None
    prior: str | None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Sources:
        """Those that a row of the records names."""
        return cls(record["context"], record["frontal"], record["lateral"], record["prior_report"])


class Target(NamedTuple):
    """Target tokens, BOS first, with per-token weights (see :mod:`pacer.training.trajectory`)."""

    ids: np.ndarray
    weight: np.ndarray
    emphasis: np.ndarray
    consistency: np.ndarray
    kappa: float


def collate(
    prompts: Sequence[PromptIds],
    targets: Sequence[Target],
    sources: Sequence[Sources],
    features: FeatureSource,
    *,
    bos: int,
    num_queries: int,
) -> Batch:
    """One batch of B samples: ``[BOS] before | Q places | after || target``, padded on the right with zeros.

    Raises:
        ValueError: a sample's context asks for a source that it does not have.
    """
    rows, weights, emphases, masks, starts, prefixes = [], [], [], [], [], []
    for prompt, target in zip(prompts, targets, strict=True):
        left = [bos, *prompt.before, *([0] * num_queries), *prompt.after]
        zeros = np.zeros(len(left), dtype=np.float32)
        rows.append(np.concatenate([np.asarray(left, dtype=np.int64), target.ids]))
        weights.append(np.concatenate([zeros, target.weight]))
        emphases.append(np.concatenate([zeros, target.emphasis]))
        masks.append(np.concatenate([zeros, target.consistency]))
        starts.append(1 + len(prompt.before))
        prefixes.append(len(left))
    return Batch(
        ids=torch.from_numpy(_pad(rows, np.int64)),
        visual_start=torch.tensor(starts),
        prefix_length=torch.tensor(prefixes),
        length=torch.tensor([len(row) for row in rows]),
        **vars(read_sources(sources, features)),
        weight=torch.from_numpy(_pad(weights, np.float32)),
        emphasis=torch.from_numpy(_pad(emphases, np.float32)),
        kappa=torch.tensor([target.kappa for target in targets], dtype=torch.float32),
        consistency=torch.from_numpy(_pad(masks, np.float32)).bool(),
    )


def read_sources(sources: Sequence[Sources], features: FeatureSource) -> SourceStates:
    """The stored states of the sources that the contexts have.

    Raises:
        ValueError: a sample's context asks for a source that it does not have.
    """
    available = torch.tensor([availability(source.context) for source in sources])
    pairs = list(zip(sources, available.tolist(), strict=True))
    laterals = [_present(source.lateral, "lateral view") for source, (lateral, _) in pairs if lateral]
    priors = [_present(source.prior, "previous report") for source, (_, prior) in pairs if prior]
    prior, prior_mask = features.prior_states(priors) if priors else (None, None)
    return SourceStates(
        availability=available,
        frontal=features.depth_states([source.frontal for source in sources]),
        lateral=features.depth_states(laterals) if laterals else None,
        prior=prior,
        prior_mask=prior_mask,
    )


def _present(value: str | None, what: str) -> str:
    if value is None:
        raise ValueError(f"a sample's context has a {what}, but the sample does not")
    return value


def _pad(rows: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    padded = np.zeros((len(rows), max(len(row) for row in rows)), dtype=dtype)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded
