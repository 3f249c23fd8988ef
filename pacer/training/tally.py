"""What is logged: sums over the micro-batches of an update and over processes, then means over updates."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from pacer.model.pacer import Batch
from pacer.training.objective import Mean, Objective


class Tally:
    """Sums of one update of ``micros`` micro-batches; nothing is read off the device before :meth:`values`."""

    def __init__(self, micros: int):
        self.micros = micros
        self._losses: dict[str, Tensor] = {}
        self._means: dict[str, Mean] = {}

    def add(self, result: Objective, batch: Batch) -> None:
        """Add one micro-batch, or this process's part of it."""
        losses = {"loss": result.total.detach(), **{f"loss_{name}": value for name, value in result.parts.items()}}
        own = {name: value / self.micros for name, value in losses.items()} | {"tokens": batch.length.sum()}
        for name, value in own.items():
            self._losses[name] = self._losses.get(name, 0) + value.float()
        for name, mean in result.means.items():
            before = self._means.get(name, (0, 0))
            self._means[name] = Mean(before[0] + mean.sum.float(), before[1] + mean.count.float())

    @property
    def sums(self) -> Tensor:
        """All sums [n] float32, in an order that is the same in every process."""
        return torch.stack([*self._losses.values(), *(part for mean in self._means.values() for part in mean)])

    def values(self, sums: Tensor) -> dict[str, float]:
        """Named values from :attr:`sums` of all processes: losses, ``tokens``, and those means that have a count."""
        numbers = iter(sums.tolist())
        values = {name: next(numbers) for name in self._losses}
        for name in self._means:
            total, count = next(numbers), next(numbers)
            if count:
                values[name] = total / count
        return values


@dataclass
class Means:
    """Means over the updates since the last logged point: a micro-batch has one context, so a single update covers
    few. A value that some of these updates lack is averaged over the others. ``sums``: value and count by name."""

    sums: dict[str, tuple[float, int]] = field(default_factory=dict)

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
