"""What is left to encode: divided into shards, measured on a first batch, and done shard by shard.

Three things happen at a time: threads read the entries of the next batches, one thread encodes a batch, and the batch
before it is written. A shard is not begun before the one before is whole, so that a kill costs one at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from torch import Tensor

from pacer.core.errors import DataError, PacerError
from pacer.core.io import hash_json
from pacer.core.progress import Ticker
from pacer.encoding.costs import WORDS, Cost, Share
from pacer.encoding.shards import Entry, Note, Scratch
from pacer.features.rounding import NotFinite
from pacer.parallel.prefetch import prefetch

#: Tensors of a batch [batch, ...], in the stored types and in the order of ``pacer.encoding.shards.write_tensors``.
Tensors = dict[str, Tensor]


def divide(kind: str, names: list[str], keys: dict[str, str], shard_size: int) -> dict[str, list[Entry]]:
    """Shards of entries that are new, in order. A shard's name follows from its entries and their keys."""
    parts = [names[start : start + shard_size] for start in range(0, len(names), shard_size)]
    return {
        f"{kind}-{hash_json([[name, keys[name]] for name in part])[:16]}.safetensors": [
            Entry(name, row, keys[name]) for row, name in enumerate(part)
        ]
        for part in parts
    }


class _Batch(NamedTuple):
    """Entries of a shard and what was loaded of them; None where it cannot be read, nothing where it is encoded."""

    shard: str
    entries: list[Entry]
    loaded: list[Any]


@dataclass
class Work:
    """The shards of one kind that one process encodes.

    Args:
        load: reads what a name stands for; raises DataError where that cannot be read. encode: a batch of what was
            loaded to its tensors. workers: threads that load. settle: what a shard's batches go through before they
            are written. others: what ``encode`` would be with other settings, for the plan. smaller: the settings with
            which no more than the stored bytes of a batch would be other.

    Attributes:
        unreadable: why it cannot be read, by name.
    """

    kind: str
    shards: dict[str, list[Entry]]
    load: Callable[[str], Any]
    encode: Callable[[list[Any]], Tensors]
    batch_size: int
    workers: int
    settle: Callable[[Iterator[Tensors]], Iterator[Tensors]] = iter
    others: dict[str, Callable[[list[Any]], Tensors]] = field(default_factory=dict)
    smaller: dict[str, Callable[[Tensors], Tensors]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    _first: dict[str, Tensors] = field(default_factory=dict)
    _incomplete: set[str] = field(default_factory=set)

    def measure(self) -> Share:
        """Time the first batch that can be read. It is kept: the work begins with it."""
        count = sum(map(len, self.shards.values()))
        for _, batch in self._batches():
            started = time.monotonic()
            loaded = list(prefetch(self._load, (entry.name for entry in batch), self.workers))
            readable = [value for value in loaded if value is not None]
            if not readable:
                continue
            loading = (time.monotonic() - started) / len(readable)
            known = [entry for entry, value in zip(batch, loaded) if value is not None]
            tensors, cost = _timed(partial(self._encode, known), readable, loading)
            others = {name: cost._replace(size=_row_bytes(store(tensors))) for name, store in self.smaller.items()}
            for name, encode in self.others.items():
                with suppress(NotFinite):  # an estimate: the other setting would stop there
                    others[name] = _timed(encode, readable[:1], loading)[1]
            if len(readable) == len(batch):
                self._first = {batch[0].name: tensors}
            return Share(self.kind, count, cost, others)
        return Share(self.kind, count, Cost(), {})

    def do(self, scratch: Scratch, shown: bool) -> dict[str, Note]:
        """Encode and write the shards; one with an entry that cannot be read is left out.

        Raises:
            PacerError: a shard cannot be written, or states are not finite.
        """
        notes = {}
        total = sum(map(len, self.shards.values()))
        with Ticker(f"encode {WORDS[self.kind]}", total, shown=shown) as ticker, closing(self._loaded()) as loaded:
            for name, entries in self.shards.items():
                own = islice(loaded, -(-len(entries) // self.batch_size))
                with closing(prefetch(self._encoded, own, workers=1, ahead=1)) as encoded:
                    try:
                        batches = self.settle(self._whole(encoded, ticker))
                        notes[name] = scratch.write(name, self.kind, entries, batches)
                    except _Incomplete:
                        continue
                    except OSError as error:
                        raise PacerError(
                            f"{scratch.store / name} cannot be written: {error.strerror}; the shards that "
                            "are whole stay for the next start"
                        ) from None
        return notes

    def _batches(self) -> Iterator[tuple[str, list[Entry]]]:
        for name, entries in self.shards.items():
            for start in range(0, len(entries), self.batch_size):
                yield name, entries[start : start + self.batch_size]

    def _loaded(self) -> Generator[_Batch]:
        """All batches, also those of a shard that cannot be completed, so that all errors are known."""
        first = set(self._first)
        left = [(name, batch) for name, batch in self._batches()]
        names = (entry.name for _, batch in left if batch[0].name not in first for entry in batch)
        loaded = prefetch(self._load, names, self.workers, ahead=2 * self.batch_size)
        for name, batch in left:
            values = [] if batch[0].name in first else list(islice(loaded, len(batch)))
            if any(value is None for value in values):
                self._incomplete.add(name)
            yield _Batch(name, batch, values)

    def _encoded(self, batch: _Batch) -> tuple[int, Tensors | None]:
        """A batch's entries and tensors; None in a shard that cannot be completed."""
        tensors = self._first.pop(batch.entries[0].name, None)
        if tensors is None and batch.shard not in self._incomplete:
            tensors = self._encode(batch.entries, batch.loaded)
        return len(batch.entries), tensors

    def _whole(self, encoded: Iterator[tuple[int, Tensors | None]], ticker: Ticker) -> Iterator[Tensors]:
        """The batches of one shard.

        Raises:
            _Incomplete: at its end, if an entry cannot be read.
        """
        complete = True
        for count, tensors in encoded:
            complete &= tensors is not None
            if complete and tensors is not None:
                yield tensors
            ticker.advance(count)
        if not complete:
            raise _Incomplete

    def _encode(self, entries: list[Entry], loaded: list[Any]) -> Tensors:
        try:
            return self.encode(loaded)
        except NotFinite as error:
            raise PacerError(error.about(f"{WORDS[self.kind][:-1]} {entries[error.row].name}")) from None

    def _load(self, name: str) -> Any:
        try:
            return self.load(name)
        except DataError as error:
            self.unreadable[name] = getattr(error, "problem", "") or str(error)
            return None


class _Incomplete(Exception):
    """A shard has an entry that cannot be read."""


def _timed(encode: Callable[[list[Any]], Tensors], loaded: list[Any], loading: float) -> tuple[Tensors, Cost]:
    """What ``encode`` makes, and what an entry costs with it; ``loading``, in seconds an entry, goes beside it."""
    encode(loaded[:1])  # what an encoder does once, at its first use, says nothing about the rate
    started = time.monotonic()
    tensors = encode(loaded)
    return tensors, Cost(_row_bytes(tensors), max(loading, (time.monotonic() - started) / len(loaded)))


def _row_bytes(tensors: Tensors) -> int:
    return sum(tensor[0].nbytes for tensor in tensors.values())
