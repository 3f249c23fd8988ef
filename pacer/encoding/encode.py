"""One process's share of the encoding: the plan is measured on a first batch, then shard by shard is made.

Three things happen at a time: threads read the entries of the next batches, one thread encodes a batch, and the batch
before it is written. A shard is not begun before the one before is whole, so that a kill costs one at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import torch
from torch import Tensor

from pacer.core.errors import DataError
from pacer.core.io import hash_file
from pacer.core.progress import Ticker
from pacer.encoding.plan import WORDS, Cost, Share
from pacer.encoding.shards import Entry, Kind, Note, Scratch, Tensors
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.prepare import stacked
from pacer.features.rounding import DTYPES, as_stored
from pacer.parallel.prefetch import prefetch
from pacer.params import Features
from pacer.pretrained.pointers import resolve

Item = TypeVar("Item")
Loaded = TypeVar("Loaded")

#: Encodes a batch: what was loaded, by the entries' names.
Encode = Callable[[dict[str, Loaded]], Tensors]


@dataclass
class ShardEncoder(Generic[Loaded]):
    """The shards of one kind that one process encodes.

    Args:
        load: reads what a name stands for; raises DataError where that cannot be read. workers: threads that load.
        other: what ``encode`` would be in the other ``features.mode``, for the plan.

    Attributes:
        unreadable: why it cannot be read, by name.
    """

    kind: Kind
    shards: dict[str, list[Entry]]
    load: Callable[[str], Loaded]
    encode: Encode[Loaded]
    batch_size: int
    workers: int = 0
    other: Encode[Loaded] | None = None
    unreadable: dict[str, str] = field(default_factory=dict)
    _first: dict[str, Tensors] = field(default_factory=dict)

    def measure(self) -> Share:
        """Time the first batch that can be read. Its tensors are kept, so that it is not encoded again."""
        entries = sum(map(len, self.shards.values()))
        batches = (batch for shard in self.shards.values() for batch in _batched(shard, self.batch_size))
        for names in ([entry.name for entry in batch] for batch in batches):
            started = time.monotonic()
            loaded = zip(names, prefetch(self._load, names, self.workers), strict=True)
            readable = {name: value for name, value in loaded if value is not None}
            if not readable:
                continue
            loading = (time.monotonic() - started) / len(readable)
            tensors, cost = _timed(self.encode, readable, loading)
            if len(readable) == len(names):
                self._first = {names[0]: tensors}
            other = None
            if self.other is not None:
                with suppress(DataError):  # an estimate: the other mode would stop there
                    other = _timed(self.other, dict([next(iter(readable.items()))]), loading)[1]
            return Share(self.kind, entries, cost, other)
        return Share(self.kind, entries, Cost(), None)

    def run(self, scratch: Scratch, shown: bool) -> dict[str, Note]:
        """Encode and write the shards; one with an entry that cannot be read is left out.

        Raises:
            DataError: states are not finite. OSError: a shard cannot be written.
        """
        notes = {}
        names = [entry.name for entries in self.shards.values() for entry in entries]
        with (
            Ticker(f"encode {WORDS[self.kind]}", len(names), shown=shown) as ticker,
            closing(prefetch(self._load, names, self.workers, ahead=2 * self.batch_size)) as loaded,
        ):

            def encoded(batch: list[tuple[str, Loaded | None]]) -> Tensors:
                readable = {name: value for name, value in batch if value is not None}
                if len(readable) < len(batch):
                    raise _Incomplete
                tensors = self._first.pop(batch[0][0], None) or self.encode(readable)
                ticker.advance(len(batch))
                return tensors

            for shard, entries in self.shards.items():
                own = zip((entry.name for entry in entries), loaded)
                try:
                    with closing(prefetch(encoded, _batched(own, self.batch_size), workers=1, ahead=1)) as batches:
                        notes[shard] = scratch.write(shard, self.kind, entries, batches)
                except _Incomplete:
                    list(own)  # the rest is read all the same, so that all errors are known
        return notes

    def _load(self, name: str) -> Loaded | None:
        try:
            return self.load(name)
        except DataError as error:
            self.unreadable[name] = getattr(error, "problem", "") or str(error)
            return None


class _Incomplete(Exception):
    """A shard has an entry that cannot be read."""


def _batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    return iter(lambda: list(islice(iterator, size)), [])


def _timed(encode: Encode[Loaded], batch: dict[str, Loaded], loading: float) -> tuple[Tensors, Cost]:
    """What ``encode`` makes, and what an entry costs with it; ``loading``, in seconds an entry, goes beside it."""
    # what an encoder does once, at its first use, says nothing about the rate
    encode(dict([next(iter(batch.items()))]))
    started = time.monotonic()
    tensors = encode(batch)
    size = sum(tensor[0].nbytes for tensor in tensors.values())
    return tensors, Cost(size, max(loading, (time.monotonic() - started) / len(batch)))


def encode_images(
    config: Features,
    vision: Path,
    shards: dict[str, list[Entry]],
    paths: dict[str, str],
    hashes: dict[str, str],
    device: torch.device,
) -> ShardEncoder[Tensor]:
    """Images to their states, or to their prepared pixels (``features.mode``).

    Args:
        paths, hashes: file of each image, and the hash of its content when its key was made.
    """
    encoder = ImageEncoder(resolve(vision), config.depths, device, config.precision)

    def load(name: str) -> Tensor:
        levels = encoder.preparation.levels(paths[name])
        if hash_file(paths[name]) != hashes[name]:
            raise DataError("the file has changed since the stage began")
        return levels

    def states(levels: dict[str, Tensor]) -> Tensors:
        found = encoder.encode_levels(stacked(list(levels.values())))
        return {"states": as_stored(found, DTYPES[config.dtype], [f"image {name}" for name in levels]).cpu()}

    def pixels(levels: dict[str, Tensor]) -> Tensors:
        return {"pixels": stacked(list(levels.values()))}

    workers = max(config.workers, 1)
    if config.mode == "states":
        return ShardEncoder("images", shards, load, states, config.batch_size, workers, other=pixels)
    # a shard is one batch: its rows have one shape, three planes where any of its images is in colour
    return ShardEncoder("images", shards, load, pixels, config.shard_size, workers, other=states)


def encode_priors(
    config: Features, text: Path, shards: dict[str, list[Entry]], texts: dict[str, str], device: torch.device
) -> ShardEncoder[str]:
    """Previous reports to their states, and the mask of the positions that are no padding."""
    encoder = TextEncoder(resolve(text), config.prior_tokens, device, config.precision)

    def encode(batch: dict[str, str]) -> Tensors:
        states, mask = encoder.encode(list(batch.values()))
        stored = as_stored(states, DTYPES[config.dtype], [f"previous report {key}" for key in batch])
        return {"states": stored.cpu(), "mask": mask.to(torch.uint8).cpu()}

    return ShardEncoder("priors", shards, texts.__getitem__, encode, config.batch_size)
