"""What is logged: sums over the micro-batches of an update and over processes, then means over updates."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pacer.core.contexts import CONTEXTS, availability
from pacer.model.pacer import Batch
from pacer.training.objective import Objective

#: Order of ``Objective.shares``.
_SOURCES = ("frontal", "lateral", "prior")


class Tally:
    """Sums of one update of ``micros`` micro-batches; nothing is read off the device before :meth:`values`."""

    def __init__(self, micros: int):
        self.micros = micros
        self._sums: dict[str, Tensor] = {}

    def add(self, result: Objective, batch: Batch, contexts: np.ndarray) -> None:
        """Add one micro-batch, or this process's part of it; ``contexts`` [B] places in CONTEXTS."""
        own = {"loss": result.total.detach() / self.micros, "tokens": batch.length.sum()}
        own |= {f"loss_{name}": value / self.micros for name, value in result.parts.items()}
        own["samples"] = torch.tensor(len(contexts), device=batch.length.device)
        if result.depth_weights is not None:
            own |= {f"depth_weight/{k}": w * len(contexts) for k, w in enumerate(result.depth_weights)}
        if result.gate is not None:
            places = torch.from_numpy(contexts.astype(np.int64)).to(result.gate.device)
            for place, context in enumerate(CONTEXTS):
                inside = places == place
                own |= {
                    f"gate/{context}": torch.where(inside, result.gate.detach(), 0).sum(),
                    f"count/{context}": inside.sum(),
                }
        if result.shares is not None:
            places = batch.availability.long() @ batch.availability.new_tensor([2, 1], dtype=torch.long)
            for place, context in enumerate(CONTEXTS):
                inside = places == place
                own |= {
                    f"share/{context}_{source}": torch.where(inside, share.detach(), 0).sum()
                    for source, share in zip(_SOURCES, result.shares.T, strict=True)
                }
                own[f"shared/{context}"] = inside.sum()
        for name, value in own.items():
            self._sums[name] = self._sums.get(name, 0) + value.float()

    @property
    def sums(self) -> Tensor:
        """All sums [n] float32, in an order that is the same in every process."""
        return torch.stack(list(self._sums.values()))

    def values(self, sums: Tensor) -> dict[str, float]:
        """Named values from :attr:`sums` of all processes: losses, ``tokens``, and means of gates, of depth weights and
        of the shares of the sources that a context has."""
        total = dict(zip(self._sums, sums.tolist(), strict=True))
        samples = total.pop("samples")
        counts: dict[str, float] = {context: total.pop(f"count/{context}", 0.0) for context in CONTEXTS}
        shared: dict[str, float] = {context: total.pop(f"shared/{context}", 0.0) for context in CONTEXTS}
        values = {}
        for name, value in total.items():
            kind, _, which = name.partition("/")
            if kind == "gate":
                if counts[which]:
                    values[name] = value / counts[which]
            elif kind == "share":
                context, _, source = which.partition("_")
                if shared[context] and (True, *availability(context))[_SOURCES.index(source)]:
                    values[name] = value / shared[context]
            else:
                values[name] = value / samples if kind == "depth_weight" else value
        return values


class Means:
    """Means over the updates since the last logged point: a micro-batch has one context, so a single update tells of
    few. A value that some of these updates lack is averaged over the others. ``sums``: value and count by name."""

    def __init__(self, sums: dict[str, tuple[float, int]] | None = None):
        self.sums = dict(sums or {})

    def add(self, values: dict[str, float]) -> None:
        """Add the values of one update."""
        for name, value in values.items():
            total, count = self.sums.get(name, (0.0, 0))
            self.sums[name] = total + value, count + 1

    def take(self) -> dict[str, float]:
        """The means so far; what comes next starts anew."""
        means = {name: total / count for name, (total, count) in self.sums.items()}
        self.sums = {}
        return means
