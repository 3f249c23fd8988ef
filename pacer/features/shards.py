"""Shard files: written as their batches arrive, and reused by later runs.

A shard's metadata names its rows, so nothing else is needed to resume a stopped run.
"""

import json
import logging
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from io import BufferedWriter
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pacer.core.io import atomic_path, hash_json
from pacer.features.store import IMAGES, PRIORS, TYPES, Place

_log = logging.getLogger(__name__)

#: The kind of an entry: image or previous report.
Kind = Literal["images", "priors"]

#: Index file and id column for each kind of entry.
INDEXES: dict[Kind, tuple[str, str]] = {
    "images": (IMAGES, "image_id"),
    "priors": (PRIORS, "text_key"),
}

_NAMES = {dtype: name for name, dtype in TYPES.items()}

#: Tensors of a batch [batch, ...] by name, in the stored types and the order of the file.
Tensors = dict[str, Tensor]


class Entry(NamedTuple):
    """An image or previous report."""

    #: Its id.
    name: str
    #: Covers everything that its encoding depends on.
    key: str


#: The entries of each shard, by file name.
Shards = Mapping[str, Sequence[Entry]]


def divide(kind: Kind, entries: Sequence[Entry], size: int) -> Shards:
    """Divide entries into shards of at most ``size``."""
    parts = [entries[start : start + size] for start in range(0, len(entries), size)]
    return {shard_name(kind, part): part for part in parts}


def shard_name(kind: Kind, entries: Sequence[Entry]) -> str:
    """Return the file name of a shard, which depends on its entries and their keys."""
    return f"{kind}-{hash_json(entries)[:16]}.safetensors"


def write_shard(path: Path, entries: Sequence[Entry], batches: Iterable[Tensors]) -> None:
    """Write a shard as its batches arrive: memory holds one batch, and writing overlaps with
    encoding.

    The bytes equal those of safetensors' own writer, which needs all tensors at once: 3 GB in each
    process.

    Args:
        entries: one for each row.
        batches: the same named tensors [batch, ...] each time.
    """
    ends: dict[str, int] = {}
    rows = 0
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        for batch in batches:
            if not ends:
                ends = _write_header(file, entries, batch)
            for name, tensor in batch.items():
                file.seek(ends[name])
                ends[name] += file.write(tensor.contiguous().flatten().view(torch.uint8).numpy())
            rows += len(next(iter(batch.values())))
        assert rows == len(entries)


def _write_header(file: BufferedWriter, entries: Sequence[Entry], batch: Tensors) -> dict[str, int]:
    """Write the header of a shard; return the offset of each tensor in the file."""
    header: dict[str, object] = {"__metadata__": {"entries": json.dumps(entries)}}
    begins = {}
    begin = 0
    for name, tensor in batch.items():
        end = begin + len(entries) * tensor[0].nbytes
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": [len(entries), *tensor.shape[1:]],
            "data_offsets": [begin, end],
        }
        begins[name] = begin
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # padding: the format aligns the tensors to eight bytes
    start = file.write(len(text).to_bytes(8, "little") + text)
    return {name: start + begin for name, begin in begins.items()}


def write_index(
    folder: Path, kind: Kind, places: Mapping[str, Place], keys: Mapping[str, str]
) -> None:
    """Write the index of one kind in the order of ``keys`` (that of the corpus), however the work
    was ordered."""
    index, column = INDEXES[kind]
    rows = [(name, *places[name], key) for name, key in keys.items()]
    schema = {column: pl.String, "shard": pl.String, "row": pl.Int64, "key": pl.String}
    pl.DataFrame(rows, schema, orient="row").write_parquet(folder / index)


def take_over(
    out: Path, scratch: Path, keys: Mapping[Kind, Mapping[str, str]]
) -> dict[Kind, dict[str, Place]]:
    """Return the places of entries that need no encoding: in shards that a stopped run left in
    ``scratch``, and in those of the store ``out``, which are linked into scratch. Damaged shards
    are logged. Raises an OSError if a shard can neither be linked nor copied.

    Args:
        keys: key of each wanted entry, by kind and id.
    """
    places: dict[Kind, dict[str, Place]] = {kind: {} for kind in keys}
    used: set[str] = set()
    for kind, wanted in keys.items():
        pattern = f"{kind}-*.safetensors"
        for path in sorted(scratch.glob(pattern)) + sorted(out.glob(pattern)):
            useful = {
                name: Place(path.name, row)
                for row, (name, key) in enumerate(_entries(path))
                if wanted.get(name) == key and name not in places[kind]
            }
            if useful:
                places[kind] |= useful
                used.add(path.name)
                if path.parent == out:
                    _link(path, scratch / path.name)
    for path in scratch.glob("*.safetensors"):
        if path.name not in used:
            path.unlink()
    return places


def _entries(path: Path) -> list[tuple[str, str]]:
    """Read the names and keys of a shard's rows; empty if it is damaged."""
    try:
        with safe_open(path, "pt") as file:
            listed = json.loads((file.metadata() or {})["entries"])
            entries = [(str(name), str(key)) for name, key in listed]
            if any(file.get_slice(name).get_shape()[0] != len(entries) for name in file.keys()):  # noqa: SIM118
                raise ValueError(
                    f"it lists {len(entries)} rows, but its tensors have a different number"
                )
            return entries
    except (OSError, SafetensorError, LookupError, TypeError, ValueError) as error:
        _log.warning(f"features: {path} is damaged: {error}; its entries will be encoded again")
        return []


def _link(path: Path, target: Path) -> None:
    try:
        # a link would share the permissions of a file in DVC's cache, which must not change
        if path.is_symlink() or path.stat().st_nlink > 1:
            raise FileExistsError
        os.link(path, target)
    except OSError:  # another file system, no hard links, or a damaged file of the same name
        with atomic_path(target) as temporary:
            shutil.copyfile(path, temporary)
