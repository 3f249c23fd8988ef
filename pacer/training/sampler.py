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

#: Maps rows and their visits, in the micro-batch of this number (counted from the start of the
#: phase), to token counts. A row's length depends on its route, this on rho, and rho on the number.
Lengths = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


@dataclass(frozen=True)
class Order:
    """The inputs that determine the order of training."""

    #: Row numbers of the training records per context, in the order of the rounds; empty contexts
    #: are skipped. A row number that appears k times is drawn k times as often as others.
    rows: Mapping[str, np.ndarray]
    #: Records in a micro-batch.
    batch_size: int
    #: Micro-batches of a context that are sorted by length together; see :func:`micro_batches`.
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
        """Micro-batches in an epoch, which covers the largest context once. The last micro-batch of
        a context is filled up with repeats."""
        return self.rounds * sum(len(numbers) > 0 for numbers in self.rows.values())


class Visits(NamedTuple):
    """Rows in the order of training."""

    #: Row numbers.
    rows: np.ndarray
    #: How often the phase has used each row before, int32.
    visits: np.ndarray

    def at(self, places: np.ndarray | slice) -> Self:
        """Return the rows at these places."""
        return self._replace(rows=self.rows[places], visits=self.visits[places])


def micro_batches(order: Order, lengths: Lengths, *, start: int = 0) -> Iterator[Visits]:
    """Yield micro-batches without end, as a pure function of the arguments; the first ``start`` are
    skipped.

    LLM-RG4's order: rounds of one micro-batch per context; contexts smaller than the largest are
    repeated, reshuffled each time. With ``mix`` the same records are shuffled into batches
    regardless of context.

    Within windows of ``window`` micro-batches (of one context, or of the mix), records are sorted
    by length and cut into batches, whose order is then shuffled. A window of 1 is the plain
    shuffled order. Where rho changes within a window, records are sorted by the lengths that they
    would have in the micro-batch in its middle.
    """
    size = order.batch_size
    used = np.zeros(1 + max(numbers.max(initial=0) for numbers in order.rows.values()), np.int32)
    number = 0  # of the next micro-batch
    for epoch in count():
        rng = np.random.default_rng([order.seed, epoch, *order.phase.encode()])
        streams = []
        for rows in _streams(order, rng):
            streams.append(Visits(rows, used[rows] + _occurrence(rows)))
            np.add.at(used, rows, 1)
        # windows of all streams side by side; their micro-batches take turns
        for first in range(0, len(streams[0].rows), order.window * size):
            windows = [stream.at(slice(first, first + order.window * size)) for stream in streams]
            batches = len(windows[0].rows) // size
            if order.window > 1:
                for place, window in enumerate(windows):
                    # of this window's micro-batches; those of the others come in between
                    micro_numbers = number + place + len(windows) * np.arange(batches)
                    shuffle = rng.permutation(batches)
                    if micro_numbers[-1] >= start:  # else all of them are skipped
                        middle = int(micro_numbers[batches // 2])
                        windows[place] = _by_length(window, shuffle, lengths, middle)
            for batch in range(batches):
                for window in windows:
                    if number >= start:
                        yield window.at(slice(batch * size, (batch + 1) * size))
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


def _by_length(window: Visits, shuffle: np.ndarray, lengths: Lengths, number: int) -> Visits:
    """Sort a window by length, cut it into micro-batches, and move the first of these to the place
    ``shuffle[0]``, and so on; ``number``: of the micro-batch in its middle."""
    by_length = np.argsort(lengths(window.rows, window.visits, number), kind="stable")
    batches = by_length.reshape(len(shuffle), -1)
    shuffled = np.empty_like(batches)
    shuffled[shuffle] = batches
    return window.at(shuffled.ravel())


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
        batches = micro_batches(self.order, self._lengths, start=start)
        for number, (rows, visits) in enumerate(batches, start):
            yield MicroBatch(rows, self._commits(rows, visits, number))

    def _commits(self, rows: np.ndarray, visits: np.ndarray, number: int) -> np.ndarray:
        """Return the routes of rows in a micro-batch: commitment first with probability 1 - rho. A
        route depends only on seed, phase, visit and record, and on rho."""
        draws = [
            self.route_seed.uniform(visit, self.examples.table.record_id(row))
            for row, visit in zip(rows.tolist(), visits.tolist(), strict=True)
        ]
        return np.array(draws) >= self.phase.rho(number // self.phase.schedule.accumulation)

    def _lengths(self, rows: np.ndarray, visits: np.ndarray, number: int) -> np.ndarray:
        return self.examples.lengths(rows, self._commits(rows, visits, number))
