"""Shard files: written whole, their checksums taken on the way to the disk, and checked when they are used again.

Beside the shards of a store in the making lies a note for each: its checksum and what it holds. A note comes before
its shard has its name, so a shard with a name is whole and has its note, whenever the process was killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import torch
from torch import Tensor

from pacer.core.errors import DataError
from pacer.core.io import atomic_path, hash_file, read_json, write_json
from pacer.features.store import DTYPES, IMAGES, MANIFEST, PRIORS

#: Index file and its key column of each kind of entry.
INDEXES = {"images": (IMAGES, "image_id"), "priors": (PRIORS, "text_key")}

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Entry(NamedTuple):
    """One image or previous report in a shard; its key tells what it was made of."""

    name: str
    row: int
    key: str


class Shard(NamedTuple):
    """A shard's checksum (SHA-256), its size in bytes, and its number of rows: what the manifest has of it."""

    sha256: str
    bytes: int
    rows: int


class Note(NamedTuple):
    """What a shard is and holds. Entries that nothing asks for any more may be missing."""

    kind: str
    shard: Shard
    entries: list[Entry]

    def write(self, path: Path) -> None:
        write_json(path, self._asdict() | {"shard": self.shard._asdict()})

    @classmethod
    def read(cls, path: Path) -> Note | None:
        """None: the file is damaged."""
        try:
            raw = read_json(path)
            return cls(raw["kind"], Shard(**raw["shard"]), [Entry(*entry) for entry in raw["entries"]])
        except (DataError, KeyError, TypeError, ValueError, AttributeError):
            return None


class Scratch:
    """A store in the making: ``store`` becomes the out, ``notes`` tell of its shards and go with the scratch."""

    def __init__(self, directory: Path):
        self.store, self.notes = directory / "store", directory / "notes"

    def note(self, shard: str) -> Path:
        return self.notes / f"{shard}.json"

    def kept(self, wanted: dict[str, dict[str, str]]) -> dict[str, Note]:
        """Shards that an earlier run left and that hold something wanted; all others are removed.

        Args:
            wanted: key by name, of each kind.
        """
        self.store.mkdir(exist_ok=True)
        self.notes.mkdir(exist_ok=True)
        kept = {}
        for path in sorted(self.notes.iterdir()):
            shard, note = self.store / path.name.removesuffix(".json"), Note.read(path)
            held = (
                []
                if note is None
                else [entry for entry in note.entries if wanted.get(note.kind, {}).get(entry.name) == entry.key]
            )
            if note and held and shard.exists() and shard.stat().st_size == note.shard.bytes:
                kept[shard.name] = note._replace(entries=held)
            else:
                path.unlink()
        for path in self.store.iterdir():  # an index of the run before, and shards whose note went
            if path.name not in kept:
                path.unlink()
        return kept

    def drop(self, shard: str) -> None:
        """Remove a shard that is damaged."""
        self.note(shard).unlink()
        (self.store / shard).unlink()

    def write(self, name: str, kind: str, entries: list[Entry], batches: Iterable[dict[str, Tensor]]) -> Note:
        """Write a shard from its batches (:func:`write_tensors`) and note it."""
        with atomic_path(self.store / name) as temporary:
            note = Note(kind, write_tensors(temporary, len(entries), batches), entries)
            note.write(self.note(name))
        return note

    def take(self, shard: Path, note: Note) -> None:
        """Take over a shard of a finished store, without a copy where the file system can.

        Raises:
            OSError: it cannot be linked nor copied.
        """
        with atomic_path(self.store / shard.name) as temporary:
            note.write(self.note(shard.name))
            try:
                os.link(shard, temporary)
            except OSError:  # another file system, or one without hard links
                shutil.copy2(shard, temporary)


def write_tensors(path: Path, rows: int, batches: Iterable[dict[str, Tensor]]) -> Shard:
    """Write a safetensors file as its batches arrive, so that memory holds one batch, however large the shard is.

    The file is one that safetensors reads, and follows from the tensors alone.

    Args:
        rows: rows of every tensor. batches: the same tensors [batch, ...] each time. The first tensor is written at
            once, the others wait for its end and should be small.

    Raises:
        ValueError: the batches have another number of rows.
    """
    digest, late, written = hashlib.sha256(), [], 0
    with open(path, "wb") as file:

        def put(content: Any) -> None:
            file.write(content)
            digest.update(content)

        for batch in batches:
            if not file.tell():
                put(_header(rows, batch))
            first, *others = (_bytes(tensor) for tensor in batch.values())
            put(first)
            late.append(others)
            written += len(next(iter(batch.values())))
        for parts in zip(*late, strict=True):
            for part in parts:
                put(part)
        if written != rows:
            raise ValueError(f"{path} would have {written} rows, not {rows}")
        return Shard(digest.hexdigest(), file.tell(), rows)


def _header(rows: int, batch: dict[str, Tensor]) -> bytes:
    header, end = {}, 0
    for name, tensor in batch.items():
        begin, end = end, end + rows * tensor[0].nbytes
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": [rows, *tensor.shape[1:]], "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format aligns the tensors to eight bytes
    return len(text).to_bytes(8, "little") + text


def _bytes(tensor: Tensor) -> memoryview:
    return memoryview(tensor.contiguous().flatten().view(torch.uint8).numpy())


def finished(out: Path, wanted: dict[str, dict[str, str]]) -> dict[str, Note]:
    """Shards of a finished store that hold something wanted, as its manifest and index tell; none where it is none.

    Raises:
        DataError: the manifest or an index is damaged, or the store has no checksums (an older version made it).
    """
    if not (out / MANIFEST).exists():
        return {}
    manifest = read_json(out / MANIFEST)
    if "shards" not in manifest:
        raise DataError(f"{out} has no checksums, as an earlier version made it")
    shards: dict[str, Note] = {}
    try:
        for kind, (index, column) in INDEXES.items():
            if not (out / index).exists() or hash_file(out / index) != manifest["indexes"][index]:
                raise DataError(f"{out / index} is damaged")
            entries = pl.read_parquet(out / index).select(column, "shard", "row", "key")
            for name, shard, row, key in entries.iter_rows():
                if wanted[kind].get(name) == key:
                    note = shards.setdefault(shard, Note(kind, Shard(**manifest["shards"][shard]), []))
                    note.entries.append(Entry(name, row, key))
    except (KeyError, TypeError, AttributeError):
        raise DataError(f"{out / MANIFEST} is damaged") from None
    return shards


def damage(path: Path, shard: Shard) -> str | None:
    """What is wrong with a file that should be this shard; all of it is read. None: nothing."""
    try:
        size = path.stat().st_size
        if size != shard.bytes:
            return f"it has {size} bytes instead of {shard.bytes}"
        return None if hash_file(path) == shard.sha256 else "its SHA-256 is not the one in the manifest"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
