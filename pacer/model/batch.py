"""Batches of model inputs: the states of their sources, token ids, and the targets of training.

Everything that the host must know, such as counts, is computed here on the CPU and stored in the
batch, so that no step has to wait for the GPU. Shapes: B samples, T positions, K depths, N
patches, n predicted tokens, d widths.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from pacer.core.contexts import availability

#: A row of ``records.parquet``, perhaps with further columns.
RecordRow = dict[str, Any]


@dataclass(kw_only=True)
class Sources:
    """The sources of a batch: images as depth states or as refined states, and previous reports.
    The tensors are moved together."""

    #: [B, 2] bool (lateral, prior).
    availability: Tensor
    #: [B, ...].
    frontal: Tensor
    #: [n_l, ...], or None if no row has a lateral view.
    lateral: Tensor | None = None
    #: [n_l], the rows that have a lateral view.
    lateral_rows: Tensor | None = None
    #: [n_p, L, d_text], or None if no row has a previous report.
    prior: Tensor | None = None
    #: [n_p, L] bool.
    prior_mask: Tensor | None = None
    #: [n_p], the rows that have a previous report.
    prior_rows: Tensor | None = None

    def to(self, device: torch.device) -> Self:
        """Return the tensors on another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned_for(self, device: torch.device) -> Self:
        """Return the tensors in memory that this device copies from without waiting: for a GPU,
        page-locked."""
        return self._each(Tensor.pin_memory) if device.type == "cuda" else self

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed = {
            name: change(value) if isinstance(value, Tensor) else value
            for name, value in vars(self).items()
        }
        return type(self)(**changed)


class SourceStates(Sources):
    """Sources as the outputs of the frozen encoders: images [., K, N, d_v]."""


class RefinedSources(Sources):
    """Sources as the inputs of the interface: images [., N, d_v]."""


class FeatureSource(Protocol):
    """The methods of a feature store (:class:`pacer.features.store.FeatureStore`) that batches
    need."""

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """Return the depth states [B, K, N, d_v] of the images."""

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the states [B, L, d_text] of the texts and their mask [B, L]."""


def read_sources(records: Sequence[RecordRow], features: FeatureSource) -> SourceStates:
    """Read the states of the sources that the contexts of these rows of ``records.parquet``
    include. Raises a ValueError if a record lacks a source that its context requires."""
    available = torch.tensor([availability(record["context"]) for record in records])
    lateral_rows, prior_rows = (column.nonzero().squeeze(1) for column in available.unbind(1))

    def required(column: str, rows: Tensor) -> list[str]:
        names = [records[row][column] for row in rows.tolist()]
        if None in names:
            raise ValueError(f"a record's context requires {column}, which the record lacks")
        return names

    laterals = required("lateral", lateral_rows)
    priors = required("prior_report", prior_rows)
    prior, prior_mask = features.prior_states(priors) if priors else (None, None)
    return SourceStates(
        availability=available,
        frontal=features.depth_states([record["frontal"] for record in records]),
        lateral=features.depth_states(laterals) if laterals else None,
        lateral_rows=lateral_rows if laterals else None,
        prior=prior,
        prior_mask=prior_mask,
        prior_rows=prior_rows if priors else None,
    )


@dataclass(kw_only=True)
class Batch(SourceStates):
    """One micro-batch of model inputs, right-padded; every sample is contiguous."""

    #: [B, T] token ids; zeros at the visual positions and in the padding.
    ids: Tensor
    #: [B], first visual position.
    visual_start: Tensor
    #: [B], positions left of ``||``.
    prefix_length: Tensor
    #: The largest of ``prefix_length``.
    longest_prefix: int
    #: [B], positions without the padding.
    length: Tensor

    @property
    def prefix_mask(self) -> Tensor:
        """m [B, P]: valid positions left of ``||``, up to the longest prefix P."""
        positions = torch.arange(self.longest_prefix, device=self.ids.device)
        return positions < self.prefix_length.unsqueeze(1)


@dataclass(kw_only=True)
class TrainingBatch(Batch):
    """A batch for training. It has n predicted tokens: all tokens of the targets except BOS, sample
    by sample."""

    #: [n], their places in the flattened ``ids``.
    at: Tensor
    #: [n], their weights in the trajectory objective.
    omega: Tensor
    #: [n], their weights in L_TLW.
    s: Tensor
    #: [n] bool, whether they are in Omega_cons.
    omega_cons: Tensor
    #: [B], weight of the ignored BOS.
    kappa: Tensor
    #: Number of tokens in Omega_cons.
    consistent: int

    @property
    def targets(self) -> Tensor:
        """[n] ids of the predicted tokens."""
        return self.ids.flatten().index_select(0, self.at)
