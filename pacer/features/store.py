"""The feature store: tensor shards and a Parquet index, read at random by image id or report text.

Shards are mapped into memory and a row is read in one copy, from the map into the batch. What stays resident is 24
bytes per entry and the memory of the last batches; the states are file pages, which all processes of a machine share
and the system may drop.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pacer.core.errors import DataError
from pacer.core.io import hash_bytes, hash_file, hash_json, read_json
from pacer.data import columns

IMAGES, PRIORS, MANIFEST = "images.parquet", "priors.parquet", "manifest.json"

_REPAIR = "`dvc repro -f -s features` finds and encodes again what is damaged"
_REMEDY = "run the features stage on this corpus, or name its images with `pacer decode --images`"

#: Bytes from which a block goes back to the system when it is freed: malloc keeps and reuses smaller ones (glibc).
_LARGE = 32 << 20
#: Index entries read at a time.
_ENTRIES = 8192
#: Large blocks that wait for their next use: frontal views, lateral views and previous reports of one batch.
_SPARE = 3


def content_hash(directory: Path) -> str:
    """One hash of what a store gives for every id: its indexes, whose keys cover what an entry was made of, and how
    states come about."""
    encoding = read_json(directory / MANIFEST).get("encoding")
    return hash_json([hash_file(directory / IMAGES), hash_file(directory / PRIORS), encoding])


def text_key(text: str) -> str:
    """Key of a previous report: the hash of its cleaned text."""
    return hash_bytes(text.encode())[:32]


class Encoding(NamedTuple):
    """How the states of a store come about (``encoding`` in its manifest).

    Attributes:
        mode, depths, dtype, precision: settings of the group ``features``. encoders: fingerprint of the frozen model
            ``vision`` and ``text``. rounding: :data:`pacer.features.rounding.VERSION`.
    """

    mode: Literal["states", "pixels"] = "states"
    encoders: Mapping[str, str] = {}
    depths: Sequence[int] = ()
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    precision: Literal["float32", "bfloat16"] = "float32"
    rounding: int = 0


_ENCODING = TypeAdapter(Encoding)


class FeatureStore:
    """Random access to a directory made by the features stage.

    Shards are mapped on first use and stay mapped, without an open file each. Threads may share a store. Returned
    tensors are the caller's own: a map is never handed out.

    Raises:
        DataError: the directory is no feature store, an index is damaged, an id is not in it, or a shard is missing or
            does not fit its index.
        ValueError: no entry is asked for; the shape of a row is not known then.
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        if not (self.directory / MANIFEST).exists():
            raise DataError(f"{directory} is not a feature store: it has no {MANIFEST}; {_REMEDY}")
        manifest = read_json(self.directory / MANIFEST)
        for index in (IMAGES, PRIORS):
            if not (self.directory / index).exists():
                raise DataError(f"{self.directory} has no {index}; {_REPAIR}")
        self._images = _Index(self.directory / IMAGES, "image_id")
        self._priors = _Index(self.directory / PRIORS, "text_key")
        try:
            self.encoding = _ENCODING.validate_python(manifest.get("encoding", {}))
        except ValidationError as error:
            first = error.errors()[0]
            allowed = first["msg"].replace("Input should", "must")
            name = ".".join(map(str, ("encoding", *first["loc"])))
            raise DataError(
                f"{self.directory / MANIFEST}: {name} = {first['input']!r:.60}: {allowed}; run the features stage again"
            ) from None
        self._open: dict[str, dict[str, Tensor]] = {}
        self._memory = _Memory()

    def __getitem__(self, image_id: str) -> Tensor:
        """States [K, N, d] of one image, as :meth:`depth_states` gives them."""
        return self.depth_states([image_id])[0]

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """States [B, K, N, d] of several images, in the stored type; repeats allowed.

        Raises:
            DataError: see the class; also a store of pixels, whose states :func:`pacer.features.online.open_features`
                makes.
        """
        if self.encoding.mode != "states":
            raise DataError(
                f"{self.directory} holds pixels (features.mode: pixels), not states; open it with "
                "pacer.features.online.open_features"
            )
        return self._read(self._images, image_ids, "image", "states")

    def pixels(self, image_ids: Sequence[str]) -> Tensor:
        """Prepared images [B, 1, H, W] uint8 of a store of pixels, [B, 3, H, W] if one has colours; repeats allowed."""
        rows = [self._read(self._images, [image_id], "image", "pixels") for image_id in image_ids]
        if not rows:
            raise ValueError("no image is asked for")
        planes = max(row.shape[1] for row in rows)
        return torch.cat([row.expand(-1, planes, -1, -1) for row in rows])

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """States [B, L, d_text] of cleaned previous reports, typed as those of images, and their masks [B, L] bool."""
        keys = [text_key(text) for text in texts]
        return (
            self._read(self._priors, keys, "previous report", "states"),
            self._read(self._priors, keys, "previous report", "mask").bool(),
        )

    def _read(self, index: _Index, keys: Sequence[str], what: str, name: str) -> Tensor:
        """Rows of the tensor ``name`` under these keys [B, ...]."""
        if not len(keys):
            raise ValueError(f"no {what} is asked for")
        places, found = index.find(keys)
        if not found.all():
            key = keys[int(found.argmin())]
            raise DataError(f"{self.directory} has no {what} {key}; {_REMEDY}")
        shards = [index.names[number] for number in index.shards[places]]
        first = self._tensor(shards[0], name)
        row_bytes = first.nbytes // len(first)
        block = self._memory.take(len(keys) * row_bytes)
        target = block.numpy().reshape(len(keys), row_bytes)
        for place, (shard, row) in enumerate(zip(shards, index.rows[places].tolist(), strict=True)):
            tensor = self._tensor(shard, name)
            if (tensor.dtype, tensor.shape[1:]) != (first.dtype, first.shape[1:]):
                raise _refusal(self.directory / shard, f"its rows of {name} are unlike those of {shards[0]}")
            if not 0 <= row < len(tensor):
                raise _refusal(self.directory / shard, f"the index asks for row {row} of {len(tensor)}")
            target[place] = tensor[row].flatten().view(torch.uint8).numpy()
        return block.view(first.dtype).view(len(keys), *first.shape[1:])

    def _tensor(self, shard: str, name: str) -> Tensor:
        if shard not in self._open:
            self._open[shard] = _map(self.directory / shard)
        if name not in self._open[shard]:
            raise _refusal(self.directory / shard, f"it holds no {name}")
        return self._open[shard][name]


class _Index:
    """Where the row of each key lies, in the order of the keys' digests.

    A digest has 16 bytes, so that two keys, stored or asked for, never share one but on purpose.

    Attributes:
        digests: bytes [entries], ascending. shards: place in ``names``, int32 [entries]. rows: int32 [entries].
        names: shard files.
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

    def find(self, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Place of each key in the arrays, int64 [keys], and whether it is there at all, bool [keys]."""
        wanted = _digests(keys)
        places = np.searchsorted(self.digests, wanted, side="left")
        return places, places < np.searchsorted(self.digests, wanted, side="right")


def _digests(keys: Iterable[str]) -> np.ndarray:
    """bytes [keys], 16 each."""
    return np.frombuffer(b"".join(blake2b(key.encode(), digest_size=16).digest() for key in keys), dtype="S16")


def _map(path: Path) -> dict[str, Tensor]:
    """The tensors of a shard, mapped into memory: a page is read when a row on it is.

    The map is private and no file stays open: a large store has more shards than a process may open files.

    Raises:
        DataError: the file cannot be read, or is cut off.
    """
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
    except OSError as error:
        raise _refusal(path, f"it cannot be read: {error.strerror or error}") from None
    except SafetensorError as error:
        raise _refusal(path, str(error)) from None


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
