"""What is left to encode: divided into shards, measured on a first batch, announced, and done shard by shard."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor

from pacer.core.errors import DataError, PacerError
from pacer.core.io import hash_json
from pacer.core.progress import Ticker
from pacer.features.shards import Entry, Note, Scratch

WORDS = {"images": "images", "priors": "previous reports"}


def divide(kind: str, names: list[str], keys: dict[str, str], shard_size: int) -> dict[str, list[Entry]]:
    """Shards of entries that are new, in order. A shard's name follows from its entries and their keys."""
    parts = [names[start : start + shard_size] for start in range(0, len(names), shard_size)]
    return {f"{kind}-{hash_json([[name, keys[name]] for name in part])[:16]}.safetensors":
            [Entry(name, row, keys[name]) for row, name in enumerate(part)] for part in parts}


class Share(NamedTuple):
    """What one process is to encode of one kind, and how fast its first batch was."""

    kind: str
    entries: int
    row_bytes: int
    seconds_each: float


@dataclass
class Work:
    """The shards of one kind that one process encodes.

    Args:
        load: reads what a name stands for; raises DataError where that cannot be read. encode: a batch of what was
            loaded to its tensors [batch, ...], in the stored types and in the order of
            :func:`pacer.features.shards.write_tensors`.

    Attributes:
        unreadable: why it cannot be read, by name.
    """

    kind: str
    shards: dict[str, list[Entry]]
    load: Callable[[str], Any]
    encode: Callable[[list[Any]], dict[str, Tensor]]
    batch_size: int
    pool: ThreadPoolExecutor
    unreadable: dict[str, str] = field(default_factory=dict)
    first: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    def measure(self) -> Share:
        """Time the first batch that can be read. It is kept: the work begins with it."""
        count = sum(map(len, self.shards.values()))
        for batch in (batch for entries in self.shards.values() for batch in self._batches(entries)):
            started = time.monotonic()
            loaded = [value for value in self._loaded(batch) if value is not None]
            if not loaded:
                continue
            loading = time.monotonic() - started
            self.encode(loaded[:1])  # what an encoder does once, at its first use, says nothing about the rate
            started = time.monotonic()
            tensors = self.encode(loaded)
            seconds = (loading + time.monotonic() - started) / len(loaded)
            if len(loaded) == len(batch):
                self.first = {batch[0].name: tensors}
            return Share(self.kind, count, sum(tensor[0].nbytes for tensor in tensors.values()), seconds)
        return Share(self.kind, count, 0, 0.0)

    def do(self, scratch: Scratch, shown: bool) -> dict[str, Note]:
        """Encode and write the shards; one with an entry that cannot be read is left out.

        Raises:
            PacerError: a shard cannot be written.
        """
        notes = {}
        with Ticker(f"encode {WORDS[self.kind]}", sum(map(len, self.shards.values())), shown=shown) as ticker:
            for name, entries in self.shards.items():
                try:
                    notes[name] = scratch.write(name, self.kind, entries, self._encoded(entries, ticker))
                except _Incomplete:
                    continue
                except OSError as error:
                    raise PacerError(f"{scratch.store / name} cannot be written: {error.strerror}; the shards that are "
                                     "whole stay for the next start") from None
        return notes

    def _encoded(self, entries: list[Entry], ticker: Ticker) -> Iterator[dict[str, Tensor]]:
        """The batches of a shard; all of it is loaded even if it cannot be completed, so that all errors are known."""
        complete = True
        for batch in self._batches(entries):
            tensors = self.first.pop(batch[0].name, None)
            if tensors is None:
                loaded = self._loaded(batch)
                complete &= all(value is not None for value in loaded)
                tensors = self.encode(loaded) if complete else None
            if tensors is not None and complete:
                yield tensors
            ticker.advance(len(batch))
        if not complete:
            raise _Incomplete

    def _batches(self, entries: list[Entry]) -> Iterator[list[Entry]]:
        return (entries[start : start + self.batch_size] for start in range(0, len(entries), self.batch_size))

    def _loaded(self, batch: list[Entry]) -> list[Any]:
        return list(self.pool.map(self._load, [entry.name for entry in batch]))

    def _load(self, name: str) -> Any:
        try:
            return self.load(name)
        except DataError as error:
            self.unreadable[name] = getattr(error, "problem", "") or str(error)
            return None


class _Incomplete(Exception):
    """A shard has an entry that cannot be read."""


def announce(shares: list[Share], out: Path, state: PartialState) -> None:
    """Print what all processes together are to encode, and refuse what the disk cannot hold.

    Raises:
        PacerError: the disk cannot hold it (on all processes).
    """
    every = gather_object([shares])
    out.parent.mkdir(parents=True, exist_ok=True)
    free = broadcast_object_list([shutil.disk_usage(out.parent).free])[0]
    need, parts = 0, []
    for kind, word in WORDS.items():
        own = [share for part in every for share in part if share.kind == kind and share.entries]
        size = max((share.row_bytes for share in own), default=0) * sum(share.entries for share in own)
        rate = sum(1 / share.seconds_each for share in own if share.seconds_each)
        need += size
        if own:
            known = f" ({_size(size)}, {rate:,.1f}/s)" if rate else ""
            parts.append(f"{sum(share.entries for share in own):,} {word}{known}")
    if not parts:
        return
    hours = max(sum(share.entries * share.seconds_each for share in part) for part in every) / 3600
    if state.is_main_process:
        print(f"features: {' and '.join(parts)} to encode, about {_duration(hours)} at the rate of the first "
              f"batch; {_size(need)} of {_size(free)} free", flush=True)
    if need > 0.95 * free:
        raise PacerError(
            f"the features need {_size(need)} more, {_size(free)} are free at {out.parent}; free space, "
            "use fewer features.depths or a smaller features.dtype"
        )


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


def _duration(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"
