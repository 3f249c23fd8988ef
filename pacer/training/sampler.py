"""The order of training: which records form a micro-batch, in LLM-RG4's context rounds or mixed,
grouped by length.

A phase is fixed before it starts: every micro-batch, and the routes of its records.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np
import polars as pl

from pacer.core.errors import DataError
from pacer.training.examples import Examples, MicroBatch
from pacer.training.phases import Phase
from pacer.training.trajectory import RouteSeed

#: Maps rows, visits and the number of a micro-batch (counted from the start of the phase) to token
#: counts. The count depends on that number because rho, and so the route, does.
Lengths = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


class Order(NamedTuple):
    """The inputs that determine the order of training.

    Attributes:
        rows: row numbers of the training records per context, in the order of the rounds; empty
            contexts are skipped. A row number that appears k times is drawn k times per epoch.
        batch_size: records in a micro-batch. window, mix: see :func:`micro_batches`.
        seed, phase: seed the shuffles.
    """

    rows: Mapping[str, np.ndarray]
    batch_size: int
    window: int
    mix: bool
    seed: int
    phase: str

    @property
    def rounds(self) -> int:
        """Micro-batches per context in an epoch: the number that the largest context fills."""
        return -(-max(map(len, self.rows.values())) // self.batch_size)

    @property
    def micro_batches_per_epoch(self) -> int:
        """Micro-batches in an epoch, which covers the largest context once."""
        return self.rounds * sum(len(numbers) > 0 for numbers in self.rows.values())


def micro_batches(order: Order, lengths: Lengths, *, start: int = 0) -> Iterator[MicroBatch]:
    """Yield micro-batches without end, as a pure function of the arguments; the first ``start`` are
    skipped.

    LLM-RG4's order: rounds of one micro-batch per context; contexts smaller than the largest are
    repeated, reshuffled each time. With ``mix`` the same records are shuffled into batches
    regardless of context.

    Within windows of ``window`` micro-batches (of one context, or of the mix), records are sorted
    by length and cut into batches, whose order is then shuffled. A window of 1 is the plain
    shuffled order. A record's route is drawn from its visit, so its length is known beforehand, but
    for a rho that changes within the window: lengths are those in the middle of it.
    """
    epoch, per_epoch = 0, order.micro_batches_per_epoch
    visits = np.zeros(
        1 + max(int(numbers.max()) for numbers in order.rows.values() if len(numbers)),
        dtype=np.int32,
    )
    while True:
        first = epoch * per_epoch
        rng = np.random.default_rng([order.seed, epoch, *order.phase.encode()])
        streams = _streams(order, rng)
        visit_numbers = [visits[stream] + _occurrence(stream) for stream in streams]
        for stream in streams:
            np.add.at(visits, stream, 1)
        if start < first + per_epoch:
            cut = [
                _windows(
                    order,
                    *drawn,
                    lengths,
                    range(first + place, first + per_epoch, len(streams)),
                    start,
                    rng,
                )
                for place, drawn in enumerate(zip(streams, visit_numbers, strict=True))
            ]
            for number, batch in enumerate(chain.from_iterable(zip(*cut, strict=True)), first):
                if number >= start:
                    yield batch
        epoch += 1


def _streams(order: Order, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the records of an epoch in shuffled order: one stream per context, or a single mixed
    stream."""
    needed = order.rounds * order.batch_size
    streams = []
    for numbers in order.rows.values():
        if len(numbers):
            repeats = -(-needed // len(numbers))
            streams.append(
                np.concatenate([rng.permutation(numbers) for _ in range(repeats)])[:needed]
            )
    return [rng.permutation(np.concatenate(streams))] if order.mix else streams


def _occurrence(stream: np.ndarray) -> np.ndarray:
    """Count, for each entry, the earlier entries of the same value; int32."""
    numbered = pl.DataFrame({"row": stream}).select(
        pl.int_range(pl.len(), dtype=pl.Int32).over("row")
    )
    return numbered.to_series().to_numpy()


def _windows(
    order: Order,
    stream: np.ndarray,
    visits: np.ndarray,
    lengths: Lengths,
    numbers: range,
    needed: int,
    rng: np.random.Generator,
) -> Iterator[MicroBatch]:
    """Yield the micro-batches of one stream, numbered ``numbers`` in the phase; each window is cut
    when reached.

    A window that ends before the number ``needed`` stays in the order of the stream: nothing is
    asked for its lengths.
    """
    size = order.batch_size
    for start in range(0, len(stream), order.window * size):
        window = MicroBatch(
            stream[start : start + order.window * size], visits[start : start + order.window * size]
        )
        if order.window > 1:
            inside = numbers[start // size : start // size + order.window]
            shuffled = np.argsort(rng.permutation(inside))
            if inside[-1] >= needed:
                by_length = np.argsort(lengths(*window, inside[len(inside) // 2]), kind="stable")
                in_place = by_length.reshape(len(inside), size)[shuffled].ravel()
                window = MicroBatch(window.rows[in_place], window.visits[in_place])
        for first in range(0, len(window.rows), size):
            yield MicroBatch(window.rows[first : first + size], window.visits[first : first + size])


class Sampler:
    """The micro-batches of a phase on the train split; a pure function of seed, parameters and
    records. Raises a DataError if there is no train record."""

    def __init__(self, phase: Phase, examples: Examples):
        self.phase, self.examples = phase, examples
        self.route_seed = RouteSeed(phase.train.seed, phase.name)
        rows = examples.table.rows("train", phase.contexts)
        if not any(map(len, rows.values())):
            raise DataError(
                f"{phase.name} needs training records in contexts {', '.join(phase.contexts)}, but "
                "the corpus has none; see the corpus audit"
            )
        more = phase.batches.positive_repeats - 1
        if examples.table.labelled and more:
            affirms = examples.table.frame["positive"].list.len().to_numpy() > 0
            for context, numbers in rows.items():
                rows[context] = np.concatenate(
                    [numbers, np.repeat(numbers[affirms[numbers]], more)]
                )
        self.order = Order(
            rows,
            phase.schedule.batch_size,
            phase.batches.window,
            phase.batches.mix,
            phase.train.seed,
            phase.name,
        )

    def from_update(self, first: int) -> Iterator[tuple[MicroBatch, float]]:
        """Yield micro-batches from update ``first`` on, without end, each with the rho of its route
        draws."""
        start = first * self.phase.schedule.accumulation
        for number, micro in enumerate(
            micro_batches(self.order, self._lengths, start=start), start
        ):
            yield micro, self._rho(number)

    def _rho(self, number: int) -> float:
        return self.phase.rho(number // self.phase.schedule.accumulation)

    def _lengths(self, rows: np.ndarray, visits: np.ndarray, number: int) -> np.ndarray:
        commits = self.examples.routes(rows, visits, self._rho(number), self.route_seed)
        direct, commitment_first = self.examples.lengths(rows).T
        return np.where(commits, commitment_first, direct)
