"""The feature store: tensor shards and a Parquet index, read at random by image id or report text.

Shards are mapped into memory and a row is read in one copy, from the map into the batch. What stays resident is 24
bytes per entry and the memory of the last batches; the states are file pages, which all processes of a machine share
and the system may drop.
"""

from __future__ import annotations

import json
import math
import os
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from torch import Tensor

from pacer.core.errors import DataError
from pacer.core.io import hash_bytes, hash_file, hash_json, read_json
from pacer.features.rounding import restored
from pacer.records import columns

IMAGES, PRIORS, MANIFEST = "images.parquet", "priors.parquet", "manifest.json"

#: Stored types, as safetensors names them. Rows are copied as bytes, so a further type needs no more than its name.
DTYPES = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U8": torch.uint8,
    "F8_E4M3": torch.float8_e4m3fn,
}

_REPAIR = "`dvc repro -f -s features` finds and encodes again what is damaged"

#: Bytes from which a block goes back to the system when it is freed: malloc keeps and reuses smaller ones (glibc).
_LARGE = 32 << 20
#: Index entries read at a time.
_ENTRIES = 8192
#: Large blocks that wait for their next use: frontal views, lateral views and previous reports of one batch.
_SPARE = 3


def content_hash(directory: Path) -> str:
    """One hash of what a store gives for every id: its indexes, whose keys tell what an entry was made of, and how
    states come about."""
    encoding = read_json(directory / MANIFEST).get("encoding")
    return hash_json([hash_file(directory / IMAGES), hash_file(directory / PRIORS), encoding])


def text_key(text: str) -> str:
    """Key of a previous report: the hash of its cleaned text."""
    return hash_bytes(text.encode())[:32]


class FeatureStore:
    """Random access to a directory made by the features stage.

    Shards are mapped on first use and stay mapped, without an open file each. A store may be passed to workers, forked
    or spawned. Returned tensors are the caller's own: a map is never handed out.

    Raises:
        DataError: the directory is no feature store, an index is damaged or has two entries under one key, an id is
            not in it, or a shard is missing or not what the index and the manifest say (its size is compared, not its
            checksum).
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        if not (self.directory / MANIFEST).exists():
            raise DataError(f"{directory} is not a feature store: it has no {MANIFEST}; run the features stage")
        manifest = read_json(self.directory / MANIFEST)
        for index, told in manifest.get("indexes", {}).items():
            path = self.directory / index
            if not path.exists() or hash_file(path) != told:
                raise DataError(f"{path} is not the index that the manifest tells of; {_REPAIR}")
        self._images = _Index(self.directory / IMAGES, "image_id")
        self._priors = _Index(self.directory / PRIORS, "text_key")
        #: how the states come about (:func:`pacer.encoding.works.encoding`)
        self.encoding: dict[str, Any] = manifest.get("encoding", {"mode": "states", "encoders": {}})
        #: bytes of each shard, as they were written
        self._sizes = {name: shard["bytes"] for name, shard in manifest.get("shards", {}).items()}
        self._open: dict[str, dict[str, _Stored]] = {}
        self._memory = _Memory()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_open": {}, "_memory": _Memory()}

    def __getitem__(self, image_id: str) -> Tensor:
        """States [K, N, d] of one image, as :meth:`depth_states` gives them."""
        return self.depth_states([image_id])[0]

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """States [B, K, N, d] of several images, in the stored type, or bfloat16 where that is fp8; repeats allowed.

        Raises:
            DataError: see the class; also a store of pixels, whose states :func:`pacer.features.online.open_features`
                makes. ValueError: no image is asked for; the shape of a row is not known then.
        """
        if self.encoding["mode"] != "states":
            raise DataError(
                f"{self.directory} holds pixels (features.mode: pixels), not states; open it with "
                "pacer.features.online.open_features"
            )
        return self._states(self._images, image_ids, "image")

    def pixels(self, image_ids: Sequence[str]) -> Tensor:
        """Prepared images [B, 1, H, W] uint8, or [B, 3, H, W] if one of them has colours; repeats allowed.

        Raises:
            DataError: see the class; also a store of states. ValueError: no image is asked for.
        """
        rows = [self._read(self._images, [image_id], "image", "pixels") for image_id in image_ids]
        if not rows:
            raise ValueError("no image is asked for")
        planes = max(row.shape[1] for row in rows)
        return torch.cat([row.expand(-1, planes, -1, -1) for row in rows])

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """States [B, L, d_text] of cleaned previous reports, typed as those of images, and their masks [B, L] bool.

        Raises:
            DataError: see the class. ValueError: no text is asked for; the shape of a row is not known then.
        """
        keys = [text_key(text) for text in texts]
        return (
            self._states(self._priors, keys, "previous report"),
            self._read(self._priors, keys, "previous report", "mask").bool(),
        )

    def _states(self, index: _Index, keys: Sequence[str], what: str) -> Tensor:
        """Rows of states, restored where they were rounded to fp8."""
        states = self._read(index, keys, what, "states")
        if states.dtype != torch.float8_e4m3fn:
            return states
        scales, centre = (self._read(index, keys, what, name) for name in ("scales", "centre"))
        out = self._memory.take(2 * states.numel()).view(torch.bfloat16).view(states.shape)
        return restored(states, scales, centre, out)

    def _read(self, index: _Index, keys: Sequence[str], what: str, tensor: str) -> Tensor:
        """Rows of ``tensor`` under these keys [B, ...]."""
        if not len(keys):
            raise ValueError(f"no {what} is asked for")
        places, found = index.find(keys)
        if not found.all():
            key = keys[int(found.argmin())]
            raise DataError(f"{self.directory} has no {what} {key}; run the features stage on this corpus")
        shards = [index.names[number] for number in index.shards[places]]
        first = self._stored(shards[0], tensor)
        block = self._memory.take(len(keys) * first.row_bytes)
        target = block.numpy().reshape(len(keys), first.row_bytes)
        for place, (shard, row) in enumerate(zip(shards, index.rows[places].tolist(), strict=True)):
            stored = self._stored(shard, tensor)
            if (stored.dtype, stored.shape) != (first.dtype, first.shape):
                raise _refusal(self.directory / shard, f"its rows of {tensor} are unlike those of {shards[0]}")
            if not 0 <= row < len(stored.rows):
                raise _refusal(self.directory / shard, f"the index asks for row {row} of {len(stored.rows)}")
            target[place] = stored.rows[row]
        return block.view(first.dtype).view(len(keys), *first.shape)

    def _stored(self, shard: str, tensor: str) -> _Stored:
        if shard not in self._open:
            self._open[shard] = _map(self.directory / shard, self._sizes.get(shard))
        if tensor not in self._open[shard]:
            raise _refusal(self.directory / shard, f"it holds no {tensor}")
        return self._open[shard][tensor]


class _Index:
    """Where the row of each key lies, in the order of the keys' digests.

    A digest has 16 bytes, so that two keys, stored or asked for, never share one but on purpose.

    Attributes:
        digests: bytes [entries], ascending. shards: place in ``names``, int32 [entries]. rows: int32 [entries].
        names: shard files.

    Raises:
        DataError: two entries have the same digest; they are named.
    """

    def __init__(self, path: Path, column: str):
        numbers: dict[str, int] = {}
        digests, shards, rows = [_digests([])], [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        for frame in columns.batches(path, [column, "shard", "row"], _ENTRIES):
            digests.append(_digests(frame[column]))
            shards.append(np.array([numbers.setdefault(name, len(numbers)) for name in frame["shard"]], np.int32))
            rows.append(frame["row"].cast(pl.Int32).to_numpy())
        pa.default_memory_pool().release_unused()  # what was read is small beside what reading it took
        self.digests = np.concatenate(digests)
        order = np.argsort(self.digests)
        self.digests = self.digests[order]
        self.shards, self.rows = np.concatenate(shards)[order], np.concatenate(rows)[order]
        self.names = list(numbers)
        equal = np.flatnonzero(self.digests[1:] == self.digests[:-1])
        if len(equal):
            one, other = columns.texts(path, column, np.sort(order[equal[0] : equal[0] + 2]))
            raise DataError(f"{path} has two entries under one key: {one} and {other}; run the features stage again")

    def find(self, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Place of each key in the arrays, int64 [keys], and whether it is there at all, bool [keys]."""
        wanted = _digests(keys)
        places = np.searchsorted(self.digests, wanted, side="left")
        return places, places < np.searchsorted(self.digests, wanted, side="right")


def _digests(keys: Iterable[str]) -> np.ndarray:
    """bytes [keys], 16 each."""
    return np.frombuffer(b"".join(blake2b(key.encode(), digest_size=16).digest() for key in keys), dtype="S16")


class _Stored(NamedTuple):
    """A tensor of a shard: its mapped bytes [rows, row_bytes] uint8, and the type and shape of a row."""

    rows: np.ndarray
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        return self.rows.shape[1]


def _map(path: Path, told_size: int | None) -> dict[str, _Stored]:
    """The tensors of a safetensors file, by name.

    The file is eight bytes (the header's length, little-endian), the header (JSON: type, shape and place of each
    tensor), and the tensors' bytes. The map is private and no file stays open: a large store has more shards than a
    process may open files.

    Args:
        told_size: its bytes as the manifest has them (None: the store was made without).

    Raises:
        DataError: the file cannot be read, is not whole, or has a type that is not known.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if told_size not in (None, size):
                raise _refusal(path, f"it has {size} bytes, and the manifest tells of {told_size}")
            start = 8 + int.from_bytes(file.read(8), "little")
            if not 8 < start <= size:
                raise _refusal(path, f"its header ends at byte {start} of {size}")
            header = json.loads(file.read(start - 8))
        data = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8).numpy()[start:]
        data.flags.writeable = False
        header.pop("__metadata__", None)
        tensors = {name: _stored(path, name, data, **tensor) for name, tensor in header.items()}
    except OSError as error:
        raise _refusal(path, f"it cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise _refusal(path, f"its header is not one of safetensors: {error}") from None
    told = sum(tensor.rows.nbytes for tensor in tensors.values())
    if told != len(data):
        raise _refusal(path, f"it has {len(data)} bytes of tensors, and its header tells of {told}")
    return tensors


def _stored(
    path: Path, name: str, data: np.ndarray, *, dtype: str, shape: list[int], data_offsets: list[int]
) -> _Stored:
    if dtype not in DTYPES:
        raise _refusal(path, f"{name} is of type {dtype}, not one of {', '.join(DTYPES)}")
    (begin, end), (rows, *row) = data_offsets, shape
    size = DTYPES[dtype].itemsize * math.prod(row)
    if not 0 <= begin <= end == begin + rows * size:
        raise _refusal(path, f"{name} {shape} {dtype} cannot lie at {data_offsets}")
    if end > len(data):
        raise _refusal(path, f"it has {len(data)} bytes of tensors, and {name} ends at byte {end}")
    return _Stored(data[begin:end].reshape(rows, size), DTYPES[dtype], tuple(row))


def _refusal(path: Path, why: str) -> DataError:
    return DataError(f"{path} is not a shard of this feature store: {why}; {_REPAIR}")


class _Memory:
    """Memory of batches, used again when nothing refers to the earlier batch any more.

    Memory that comes fresh from the system has to be zeroed and mapped page by page, which takes several times as long
    as copying the states into it.
    """

    def __init__(self) -> None:
        self.spare: deque[Tensor] = deque(maxlen=_SPARE)

    def take(self, size: int) -> Tensor:
        """Bytes [size] uint8, of any content."""
        if size < _LARGE:
            return torch.empty(size, dtype=torch.uint8)
        block = self._block(size)
        # the tensor that is handed out, and every view of it, keep this array alive; the block is free when it goes
        lent = block.numpy()[:size]
        weakref.finalize(lent, self.spare.append, block).atexit = False
        return torch.from_numpy(lent)

    def _block(self, size: int) -> Tensor:
        # No iteration: another thread, or the end of an earlier batch, may change the blocks at any moment.
        for _ in range(_SPARE):
            try:
                block = self.spare.popleft()
            except IndexError:
                break
            if size <= len(block) <= 4 * size:  # a small batch does not hold on to a large block
                return block
            self.spare.append(block)
        return torch.empty(size, dtype=torch.uint8)
