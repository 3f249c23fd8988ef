"""Shard files: written whole as their batches arrive, and used again by later runs.

A shard says in its metadata what its rows are, so that nothing else is needed to go on where a run stopped.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pacer.core.errors import DataError
from pacer.core.io import atomic_path, hash_json
from pacer.features.store import IMAGES, PRIORS, Place, read_index

#: What entries are: images or previous reports.
Kind = Literal["images", "priors"]

#: Index file and its id column of each kind of entry.
INDEXES: dict[Kind, tuple[str, str]] = {"images": (IMAGES, "image_id"), "priors": (PRIORS, "text_key")}

#: Stored types, as safetensors names them.
_NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.uint8: "U8"}
#: Where a shard's metadata names its rows.
_ENTRIES = "entries"

#: Tensors of a batch [batch, ...] by name, in the stored types and in the order of the file.
Tensors = dict[str, Tensor]


class Entry(NamedTuple):
    """An image or previous report: its id, and the key that covers what it is encoded from."""

    name: str
    key: str


def divide(kind: Kind, entries: Sequence[Entry], size: int) -> dict[str, Sequence[Entry]]:
    """Shards of at most ``size`` entries. The name of each follows from its entries and their keys."""
    parts = [entries[start : start + size] for start in range(0, len(entries), size)]
    return {f"{kind}-{hash_json(part)[:16]}.safetensors": part for part in parts}


def write_shard(path: Path, entries: Sequence[Entry], batches: Iterable[Tensors]) -> None:
    """Write a shard as its batches arrive: memory holds one batch, and the disk works while the encoder does.

    The bytes are those of safetensors' own writer, which needs all tensors at once: gigabytes in each process.

    Args:
        entries: what each row is. batches: the same tensors [batch, ...] each time. The first tensor is written at
            once, the others wait for its end and should be small.
    """
    waiting: list[list[memoryview]] = []
    rows = 0
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        for batch in batches:
            if not rows:
                file.write(_header(entries, batch))
            first, *others = (
                memoryview(tensor.contiguous().flatten().view(torch.uint8).numpy()) for tensor in batch.values()
            )
            file.write(first)
            waiting.append(others)
            rows += len(next(iter(batch.values())))
        for parts in zip(*waiting, strict=True):
            file.writelines(parts)
        assert rows == len(entries)


def _header(entries: Sequence[Entry], batch: Tensors) -> bytes:
    header: dict[str, object] = {"__metadata__": {_ENTRIES: json.dumps(entries)}}
    end = 0
    for name, tensor in batch.items():
        begin, end = end, end + len(entries) * tensor[0].nbytes
        shape = [len(entries), *tensor.shape[1:]]
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format aligns the tensors to eight bytes
    return len(text).to_bytes(8, "little") + text


class _Shard(NamedTuple):
    kind: Kind
    path: Path
    rows: dict[int, Entry]


def take_over(out: Path, scratch: Path, keys: Mapping[Kind, Mapping[str, str]]) -> dict[Kind, dict[str, Place]]:
    """Places of the entries that need not be encoded again: in shards that a stopped run left in ``scratch``, and in
    those of the store ``out``, which are linked into scratch. What is damaged is named on the console.

    Args:
        keys: key of each entry that is wanted, by kind and id.

    Raises:
        OSError: a shard cannot be linked nor copied.
    """
    places: dict[Kind, dict[str, Place]] = {kind: {} for kind in keys}
    for kind, path, rows in (*_stopped(scratch), *_finished(out)):
        useful = {
            name: Place(path.name, row)
            for row, (name, key) in rows.items()
            if keys[kind].get(name) == key and name not in places[kind]
        }
        if not useful:
            continue
        if problem := _damage(path, max(rows)):
            print(f"features: {path} is damaged: {problem}; {len(useful)} {kind} are encoded again", flush=True)
            continue
        places[kind] |= useful
        if path.parent != scratch:
            _link(path, scratch / path.name)
    used = {place.shard for known in places.values() for place in known.values()}
    for path in scratch.iterdir():
        if path.name not in used:
            path.unlink()
    return places


def _stopped(scratch: Path) -> Iterator[_Shard]:
    """The shards of a stopped run, by their metadata."""
    for kind in INDEXES:
        for path in sorted(scratch.glob(f"{kind}-*.safetensors")):
            try:
                with safe_open(path, "pt") as file:
                    entries = json.loads((file.metadata() or {}).get(_ENTRIES, "[]"))
            except (OSError, SafetensorError) as error:
                print(f"features: {path} is damaged: {error}; what it held is encoded again", flush=True)
            else:
                yield _Shard(kind, path, {row: Entry(*entry) for row, entry in enumerate(entries)})


def _finished(out: Path) -> Iterator[_Shard]:
    """The shards of a finished store, by its indexes."""
    for kind, (index, column) in INDEXES.items():
        if not (out / index).exists():
            continue
        try:
            frame = read_index(out / index, [column, "shard", "row", "key"])
        except DataError as error:
            print(f"features: {error}: all {kind} are encoded again", flush=True)
            continue
        for (shard,), entries in frame.group_by(["shard"], maintain_order=True):
            rows = {row: Entry(name, key) for name, _, row, key in entries.iter_rows()}
            yield _Shard(kind, out / str(shard), rows)


def _damage(path: Path, last_row: int) -> str | None:
    """Why a file is no shard with such a row; None: it is one."""
    try:
        with safe_open(path, "pt") as file:
            rows = min(file.get_slice(name).get_shape()[0] for name in file.keys())  # noqa: SIM118 (it is no dictionary)
    except (OSError, SafetensorError) as error:
        return str(error)
    return None if last_row < rows else f"the index asks for row {last_row} of {rows}"


def _link(path: Path, target: Path) -> None:
    with atomic_path(target) as temporary:
        try:
            os.link(path, temporary)
        except OSError:  # another file system, or one without hard links
            shutil.copy2(path, temporary)
