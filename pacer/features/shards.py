"""Shard files: written whole, and checked for their size when they are used again.

Beside the shards of a store in the making lies a note for each: its size and what it holds. A note comes before
its shard has its name, so a shard with a name is whole and has its note, whenever the process was killed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from pacer.core.errors import DataError
from pacer.core.io import atomic_path, read_json, write_json
from pacer.features.store import IMAGES, MANIFEST, PRIORS

#: What entries are: images or previous reports.
Kind = Literal["images", "priors"]

#: Index file and its key column of each kind of entry.
INDEXES: dict[Kind, tuple[str, str]] = {"images": (IMAGES, "image_id"), "priors": (PRIORS, "text_key")}

#: Stored types, as safetensors names them.
_NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.uint8: "U8"}

#: Tensors of a batch [batch, ...] by name, in the stored types and in the order of the file.
Tensors = dict[str, Tensor]


class Entry(NamedTuple):
    """One image or previous report in a shard; its key covers what it was made of."""

    name: str
    row: int
    key: str


class Shard(NamedTuple):
    """A shard's size in bytes and its number of rows: what the manifest has of it."""

    bytes: int
    rows: int


class ShardRecord(NamedTuple):
    """What a shard is and holds. Entries that nothing asks for any more may be missing."""

    kind: Kind
    shard: Shard
    entries: list[Entry]


_SHARD_RECORD = TypeAdapter(ShardRecord)


class Scratch:
    """A store in the making: ``store`` becomes the out; ``notes``, of its shards, go with the scratch."""

    def __init__(self, directory: Path):
        self.store, self.notes = directory / "store", directory / "notes"

    def note(self, shard: str) -> Path:
        """Path of the note that describes a shard."""
        return self.notes / f"{shard}.json"

    def left(self) -> dict[Path, ShardRecord]:
        """The shards that an earlier run left."""
        self.store.mkdir(exist_ok=True)
        self.notes.mkdir(exist_ok=True)
        found = {}
        for path in sorted(self.store.glob("*.safetensors")):
            try:
                found[path] = _SHARD_RECORD.validate_json(self.note(path.name).read_bytes())
            except (OSError, ValidationError):
                continue  # a damaged note: its shard is made again
        return found

    def keep(self, shards: Iterable[str]) -> None:
        """Remove everything but these shards and their notes."""
        names = set(shards)
        for path in (*self.store.iterdir(), *self.notes.iterdir()):
            if path.name.removesuffix(".json") not in names:
                path.unlink()

    def write(self, name: str, kind: Kind, entries: list[Entry], batches: Iterable[Tensors]) -> ShardRecord:
        """Write a shard from its batches (:func:`write_tensors`) and note it."""
        with atomic_path(self.store / name) as temporary:
            note = ShardRecord(kind, write_tensors(temporary, len(entries), batches), entries)
            write_json(self.note(name), note)
        return note

    def take(self, shard: Path, note: ShardRecord) -> None:
        """Take over a shard of a finished store, without a copy where the file system can.

        Raises:
            OSError: it cannot be linked nor copied.
        """
        with atomic_path(self.store / shard.name) as temporary:
            write_json(self.note(shard.name), note)
            try:
                os.link(shard, temporary)
            except OSError:  # another file system, or one without hard links
                shutil.copy2(shard, temporary)


def write_tensors(path: Path, rows: int, batches: Iterable[Tensors]) -> Shard:
    """Write a safetensors file as its batches arrive, so that memory holds one batch, however large the shard is.

    The bytes are those of safetensors' own writer, which needs all tensors at once.

    Args:
        rows: rows of every tensor. batches: the same tensors [batch, ...] each time. The first tensor is written at
            once, the others wait for its end and should be small.

    Raises:
        ValueError: the batches have another number of rows.
    """
    late, written = [], 0
    with open(path, "wb") as file:
        for batch in batches:
            if not file.tell():
                file.write(_header(rows, batch))
            first, *others = (
                memoryview(tensor.contiguous().flatten().view(torch.uint8).numpy()) for tensor in batch.values()
            )
            file.write(first)
            late.append(others)
            written += len(next(iter(batch.values())))
        for parts in zip(*late, strict=True):
            for part in parts:
                file.write(part)
        if written != rows:
            raise ValueError(f"{path} would have {written} rows, not {rows}")
        return Shard(file.tell(), rows)


def _header(rows: int, batch: Tensors) -> bytes:
    header, end = {}, 0
    for name, tensor in batch.items():
        begin, end = end, end + rows * tensor[0].nbytes
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": [rows, *tensor.shape[1:]], "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format aligns the tensors to eight bytes
    return len(text).to_bytes(8, "little") + text


def finished(out: Path) -> dict[Path, ShardRecord]:
    """The shards of a finished store by its manifest and indexes; none where there is no store.

    Raises:
        DataError: the manifest or an index is damaged.
    """
    if not (out / MANIFEST).exists():
        return {}
    manifest = read_json(out / MANIFEST)
    shards: dict[Path, ShardRecord] = {}
    try:
        for kind, (index, column) in INDEXES.items():
            entries = pl.read_parquet(out / index).select(column, "shard", "row", "key")
            for name, shard, row, key in entries.iter_rows():
                about = manifest["shards"][shard]
                note = shards.setdefault(out / shard, ShardRecord(kind, Shard(about["bytes"], about["rows"]), []))
                note.entries.append(Entry(name, row, key))
    except (OSError, KeyError, TypeError, AttributeError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{out} is not a feature store of this version ({type(error).__name__})") from None
    return shards


def damage(path: Path, shard: Shard) -> str | None:
    """What is wrong with a file that should be this shard; None: nothing."""
    try:
        size = path.stat().st_size
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return None if size == shard.bytes else f"it has {size} bytes instead of {shard.bytes}"
