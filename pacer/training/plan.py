"""What a phase will do, known before it starts: every micro-batch, its records' routes, and how often each is met."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from pacer.params import Params, Train
from pacer.training.batches import MicroBatch, Order, micro_batches, real_share
from pacer.training.examples import Draw, Examples
from pacer.training.phases import Phase


class Visits(NamedTuple):
    """Rows that a phase meets, ascending, and how often each."""

    rows: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class Plan:
    """The micro-batches of a phase over these examples; a pure function of seed, parameters and records."""

    examples: Examples
    phase: Phase
    order: Order
    draws: Draw

    def from_update(self, first: int) -> Iterator[tuple[MicroBatch, float]]:
        """Micro-batches from update ``first`` on, without end, each with the rho that its routes are drawn with."""
        start = first * self.phase.accumulation
        for number, micro in enumerate(micro_batches(self.order, self._lengths, start=start), start):
            yield micro, self._rho(number)

    def visits(self, train: Train) -> Visits:
        """Rows that the phase trains on or validates with, and how often it meets each."""
        whole = islice(self.from_update(0), self.phase.updates * self.phase.accumulation)
        counts = np.zeros(len(self.examples.table), dtype=np.int64)
        for micro, _ in whole:
            np.add.at(counts, micro.rows, 1)
        validations = -(-self.phase.updates // train.validation_interval)
        for rows in self.examples.table.rows("val", self.phase.contexts).values():
            counts[rows[: train.validation_records]] += validations
        rows = np.flatnonzero(counts)
        return Visits(rows, counts[rows])

    def real_share(self) -> dict[str, float]:
        """Real tokens over padded tokens in an epoch: of this plan, and of the published order (window 1)."""
        shares = {}
        for name, order in (("real_share", self.order), ("published_real_share", self.order._replace(window=1))):
            epoch = islice(micro_batches(order, self._lengths), order.micro_batches_per_epoch)
            shares[f"batches/{name}"] = real_share(epoch, self._lengths)
        return shares

    def _rho(self, number: int) -> float:
        return self.phase.rho(number // self.phase.accumulation)

    def _lengths(self, rows: np.ndarray, visits: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        uniform, tokens = self.examples.uniform(rows, visits, self.draws), self.examples.lengths[rows]

        def at(numbers: np.ndarray) -> np.ndarray:
            commits = uniform >= np.array([self._rho(int(number)) for number in numbers])
            return np.where(commits, tokens[:, 1], tokens[:, 0])

        return at


def plan_of(phase: Phase, params: Params, examples: Examples) -> Plan:
    """The plan of a phase on the train split."""
    order = Order(
        examples.table.rows("train", phase.contexts),
        phase.batch_size,
        params.batches.window,
        params.batches.mix,
        params.train.seed,
        phase.name,
    )
    return Plan(examples, phase, order, Draw(params.train.seed, phase.name))
