"""The order of training: which records form a micro-batch, in LLM-RG4's context rounds or mixed,
grouped by length.

A phase is fixed before it starts: every micro-batch, and the routes of its records.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, Self

import numpy as np
import polars as pl

from pacer.core.errors import DataError
from pacer.training.examples import Examples, MicroBatch
from pacer.training.phases import Phase
from pacer.training.trajectory import RouteSeed

#: Draws a number in [0, 1) for each row, given how often the phase has already used it.
Draw = Callable[[np.ndarray, np.ndarray], np.ndarray]
#: Maps rows, their draws and the number of a micro-batch (counted from the start of the phase) to
#: token counts. These depend on that number, because rho, and so the route of a row, depends on it.
Lengths = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


@dataclass(frozen=True)
class Order:
    """The inputs that determine the order of training."""

    #: Row numbers of the training records per context, in the order of the rounds; empty contexts
    #: are skipped. A row number that appears k times is drawn k times per epoch.
    rows: Mapping[str, np.ndarray]
    #: Records in a micro-batch.
    batch_size: int
    #: Micro-batches that are sorted by length together; see :func:`micro_batches`.
    window: int
    #: Whether a micro-batch mixes contexts.
    mix: bool
    #: Seeds the shuffles, together with the name of the phase.
    seed: int
    phase: str

    @property
    def rounds(self) -> int:
        """Micro-batches per context in an epoch: the number that the largest context fills."""
        return math.ceil(max(map(len, self.rows.values())) / self.batch_size)

    @property
    def micro_batches_per_epoch(self) -> int:
        """Micro-batches in an epoch, which covers the largest context once."""
        return self.rounds * sum(len(numbers) > 0 for numbers in self.rows.values())


class DrawnRows(NamedTuple):
    """Rows with their random draws."""

    #: Row numbers.
    rows: np.ndarray
    #: The number in [0, 1) drawn for each row.
    draws: np.ndarray

    def at(self, places: np.ndarray | slice) -> Self:
        """Return the rows at these places."""
        return self._replace(rows=self.rows[places], draws=self.draws[places])


def micro_batches(
    order: Order, draw: Draw, lengths: Lengths, *, start: int = 0
) -> Iterator[DrawnRows]:
    """Yield micro-batches without end, as a pure function of the arguments; the first ``start`` are
    skipped.

    LLM-RG4's order: rounds of one micro-batch per context; contexts smaller than the largest are
    repeated, reshuffled each time. With ``mix`` the same records are shuffled into batches
    regardless of context.

    Within windows of ``window`` micro-batches (of one context, or of the mix), records are sorted
    by length and cut into batches, whose order is then shuffled. A window of 1 is the plain
    shuffled order. A record's route follows from its draw, so its length is known beforehand,
    unless rho changes within the window: lengths are those in the middle of it.
    """
    per_epoch = order.micro_batches_per_epoch
    visits = np.zeros(1 + max(numbers.max(initial=0) for numbers in order.rows.values()), np.int32)
    for epoch in count():
        first = epoch * per_epoch
        rng = np.random.default_rng([order.seed, epoch, *order.phase.encode()])
        streams = _streams(order, rng)
        visit_numbers = [visits[stream] + _occurrence(stream) for stream in streams]
        for stream in streams:
            np.add.at(visits, stream, 1)
        if start >= first + per_epoch:
            continue
        batches_of_streams = [
            _windows(
                order,
                stream,
                stream_visits,
                draw,
                lengths,
                range(first + place, first + per_epoch, len(streams)),
                start,
                rng,
            )
            for place, (stream, stream_visits) in enumerate(
                zip(streams, visit_numbers, strict=True)
            )
        ]
        number = first
        for round_of_batches in zip(*batches_of_streams, strict=True):
            for batch in round_of_batches:
                if number >= start:
                    yield batch
                number += 1


def _streams(order: Order, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the records of an epoch in shuffled order: one stream per context, or a single mixed
    stream."""
    needed = order.rounds * order.batch_size
    streams = []
    for numbers in order.rows.values():
        if len(numbers):
            repeats = math.ceil(needed / len(numbers))
            repeated = np.concatenate([rng.permutation(numbers) for _ in range(repeats)])
            streams.append(repeated[:needed])
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
    draw: Draw,
    lengths: Lengths,
    numbers: range,
    needed: int,
    rng: np.random.Generator,
) -> Iterator[DrawnRows]:
    """Yield the micro-batches of one stream, numbered ``numbers`` in the phase; each window is cut
    when reached.

    A window that ends before the number ``needed`` is only shuffled, without draws or lengths,
    since its micro-batches are skipped.
    """
    size = order.batch_size
    for start in range(0, len(stream), order.window * size):
        place = slice(start, start + order.window * size)
        inside = numbers[start // size : start // size + order.window]
        is_needed = inside[-1] >= needed
        rows = stream[place]
        draws = draw(rows, visits[place]) if is_needed else np.zeros(len(rows))
        window = DrawnRows(rows, draws)
        if order.window > 1:
            shuffled = np.argsort(rng.permutation(inside))
            if is_needed:
                middle = inside[len(inside) // 2]
                by_length = np.argsort(lengths(rows, draws, middle), kind="stable")
                window = window.at(by_length.reshape(len(inside), size)[shuffled].ravel())
        for first in range(0, len(rows), size):
            yield window.at(slice(first, first + size))


class Sampler:
    """The micro-batches of a phase on the train split; a pure function of seed, parameters and
    records. Raises a DataError if there is no train record."""

    def __init__(self, phase: Phase, examples: Examples):
        self.phase = phase
        self.examples = examples
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
                repeats = np.repeat(numbers[affirms[numbers]], more)
                rows[context] = np.concatenate([numbers, repeats])
        self.order = Order(
            rows=rows,
            batch_size=phase.schedule.batch_size,
            window=phase.batches.window,
            mix=phase.batches.mix,
            seed=phase.train.seed,
            phase=phase.name,
        )

    def from_update(self, first: int) -> Iterator[MicroBatch]:
        """Yield micro-batches from update ``first`` on, without end."""
        start = first * self.phase.schedule.accumulation
        batches = micro_batches(self.order, self._draws, self._lengths, start=start)
        for number, (rows, draws) in enumerate(batches, start):
            yield MicroBatch(rows, self._commits(draws, number))

    def _draws(self, rows: np.ndarray, visits: np.ndarray) -> np.ndarray:
        record_ids = [self.examples.table.record_id(row) for row in rows.tolist()]
        return np.array(
            [
                self.route_seed.uniform(visit, record_id)
                for visit, record_id in zip(visits.tolist(), record_ids, strict=True)
            ]
        )

    def _commits(self, draws: np.ndarray, number: int) -> np.ndarray:
        """Return the routes in this micro-batch: commitment first with probability 1 - rho."""
        return draws >= self.phase.rho(number // self.phase.schedule.accumulation)

    def _lengths(self, rows: np.ndarray, draws: np.ndarray, number: int) -> np.ndarray:
        return self.examples.lengths(rows, self._commits(draws, number))
