"""What a phase will do, known before it starts: every micro-batch, and the routes of its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from pacer.training.batches import MicroBatch, Order, micro_batches, real_share
from pacer.training.examples import Draw, Examples
from pacer.training.phases import Phase


class Plan:
    """The micro-batches of a phase over the train split; a pure function of seed, parameters and records."""

    def __init__(self, phase: Phase, examples: Examples):
        self.phase, self.examples = phase, examples
        self.draws = Draw(phase.train.seed, phase.name)
        self.order = Order(
            examples.table.rows("train", phase.contexts),
            phase.schedule.batch_size,
            phase.batches.window,
            phase.batches.mix,
            phase.train.seed,
            phase.name,
        )

    def from_update(self, first: int) -> Iterator[tuple[MicroBatch, float]]:
        """Micro-batches from update ``first`` on, without end, each with the rho that its routes are drawn with."""
        start = first * self.phase.schedule.accumulation
        for number, micro in enumerate(micro_batches(self.order, self._lengths, start=start), start):
            yield micro, self._rho(number)

    def real_share(self) -> dict[str, float]:
        """Real tokens over padded tokens in an epoch: of this plan, and of LLM-RG4's order (window 1)."""
        shares = {}
        for name, order in (("real_share", self.order), ("published_real_share", self.order._replace(window=1))):
            epoch = islice(micro_batches(order, self._lengths), order.micro_batches_per_epoch)
            shares[f"batches/{name}"] = real_share(epoch, self._lengths)
        return shares

    def _rho(self, number: int) -> float:
        return self.phase.rho(number // self.phase.schedule.accumulation)

    def _lengths(self, rows: np.ndarray, visits: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        uniform, tokens = self.examples.uniform(rows, visits, self.draws), self.examples.lengths[rows]

        def at(numbers: np.ndarray) -> np.ndarray:
            commits = uniform >= np.array([self._rho(int(number)) for number in numbers])
            return np.where(commits, tokens[:, 1], tokens[:, 0])

        return at
