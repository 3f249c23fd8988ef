"""One process's share of the encoding, shard by shard.

Three things happen at a time: threads read the entries of the next batches, one thread encodes a batch, and the batch
before it is written. A shard is not begun before the one before is whole, so that a kill costs one at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import torch
from torch import Tensor

from pacer.backbones.pointers import resolve
from pacer.config import Features
from pacer.core.errors import DataError
from pacer.core.io import hash_file
from pacer.core.prefetch import prefetch
from pacer.core.progress import Ticker
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.plan import WORDS, image_bytes, prior_bytes
from pacer.features.prepare import stacked
from pacer.features.rounding import DTYPES, as_stored
from pacer.features.shards import Entry, Kind, Scratch, ShardRecord, Tensors

Item = TypeVar("Item")
Loaded = TypeVar("Loaded")

#: Encodes a batch: what was loaded, by the entries' names.
Encode = Callable[[dict[str, Loaded]], Tensors]


@dataclass
class ShardEncoder(Generic[Loaded]):
    """The shards of one kind that one process encodes.

    Args:
        load: reads what a name stands for; raises DataError where that cannot be read. workers: threads that load.
        sizes: bytes of an entry by ``features.mode``.

    Attributes:
        unreadable: why it cannot be read, by name.
    """

    kind: Kind
    shards: dict[str, list[Entry]]
    load: Callable[[str], Loaded]
    encode: Encode[Loaded]
    batch_size: int
    sizes: Mapping[str, int]
    workers: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    def run(self, scratch: Scratch, shown: bool) -> dict[str, ShardRecord]:
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
                tensors = self.encode(readable)
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

    # a shard of pixels is one batch: its rows have one shape, three planes where any of its images is in colour
    encode, batch_size = (states, config.batch_size) if config.mode == "states" else (pixels, config.shard_size)
    size, width = encoder.preparation.pixels, encoder.model.config.hidden_size
    patches = size // encoder.model.config.patch_size**2
    sizes = {mode: image_bytes(config, mode, patches, width, size) for mode in ("states", "pixels")}
    return ShardEncoder("images", shards, load, encode, batch_size, sizes, max(config.workers, 1))


def encode_priors(
    config: Features, text: Path, shards: dict[str, list[Entry]], texts: dict[str, str], device: torch.device
) -> ShardEncoder[str]:
    """Previous reports to their states, and the mask of the positions that are no padding."""
    encoder = TextEncoder(resolve(text), config.prior_tokens, device, config.precision)

    def encode(batch: dict[str, str]) -> Tensors:
        states, mask = encoder.encode(list(batch.values()))
        stored = as_stored(states, DTYPES[config.dtype], [f"previous report {key}" for key in batch])
        return {"states": stored.cpu(), "mask": mask.to(torch.uint8).cpu()}

    sizes = dict.fromkeys(("states", "pixels"), prior_bytes(config, encoder.model.config.hidden_size))
    return ShardEncoder("priors", shards, texts.__getitem__, encode, config.batch_size, sizes)
