"""The feature store: tensor shards and Parquet indexes, with random access by image id or report
text.

A row is read from its shard directly into the batch. Only file pages stay in memory: all processes
on a machine share them, and the system may drop them.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pacer.config.strict import Strict, validated
from pacer.core.errors import DataError
from pacer.core.io import hash_bytes, hash_file, hash_json, read_json

IMAGES = "images.parquet"
PRIORS = "priors.parquet"
MANIFEST = "manifest.json"

#: Increased by every change that stores the same states as other bytes; part of each entry's key.
ROUNDING_VERSION = 1

#: Stored types by the names of ``features.dtype``.
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

#: Stored types by their names in safetensors.
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "U8": torch.uint8}

_REMEDY = "run the `features` stage on this corpus, or let `pacer decode` encode its images"


class Encoding(Strict):
    """How the states of a store are computed (``encoding`` in its manifest): settings of the group
    ``features``, and what else their values depend on."""

    mode: Literal["states", "pixels"]
    #: Fingerprints of the frozen models ``vision`` and ``text``.
    encoders: dict[str, str]
    depths: list[int]
    dtype: Literal["float32", "float16", "bfloat16"]
    precision: Literal["float32", "bfloat16"]
    #: :data:`ROUNDING_VERSION`.
    rounding: int


class Place(NamedTuple):
    """The location of an entry."""

    #: File name of the shard.
    shard: str
    #: Row in the shard.
    row: int


def content_hash(directory: Path) -> str:
    """Return one hash of a store's content: of its indexes, whose keys cover everything that an
    entry was made from, and of its encoding."""
    encoding = read_json(directory / MANIFEST).get("encoding")
    return hash_json([hash_file(directory / IMAGES), hash_file(directory / PRIORS), encoding])


def text_key(text: str) -> str:
    """Return the key of a previous report: the hash of its cleaned text."""
    return hash_bytes(text.encode())[:32]


def as_stored(states: Tensor, dtype: torch.dtype, entries: Sequence[str]) -> Tensor:
    """Convert states [B, ...] to the stored type ``dtype``; ``entries`` are their names for the
    error message. Raises a DataError if an entry has a value that is not finite in the stored
    type."""
    stored = states.to(dtype)
    finite = stored.isfinite().flatten(1).all(1)
    if not finite.all():
        raise DataError(
            f"the states of {entries[int(finite.int().argmin())]} are not finite in the stored "
            "type; choose another features.dtype (float16 overflows above 65504, bfloat16 does "
            "not); if none works, the encoder is broken"
        )
    return stored


class FeatureStore:
    """Random access to a directory made by the features stage.

    Only the headers of shards are kept, and no file stays open: rows read from files take half the
    time of safetensors' ``get_slice``. Threads may share a store.

    Raises:
        DataError: the directory is not a feature store, an index is damaged, an id is not in it, or
            a shard is missing or does not fit its index.
        ConfigError: the manifest has an encoding that this software does not know.
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        if not (self.directory / MANIFEST).exists():
            raise DataError(f"{directory} is not a feature store: it has no {MANIFEST}; {_REMEDY}")
        encoding = read_json(self.directory / MANIFEST).get("encoding")
        self.encoding = validated(encoding, f"{self.directory / MANIFEST}, encoding", Encoding)
        self._images = _places(self.directory / IMAGES, "image_id")
        self._priors = _places(self.directory / PRIORS, "text_key")
        self._header = cache(lambda shard: _read_header(self.directory / shard))

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """Return the states [B, K, N, d] of several images, in the stored type; repeats allowed.
        Raises a DataError as the class does, or if the store holds pixels, which need
        :func:`pacer.features.encoder.open_features`."""
        return self._read(self._images, image_ids, "image", "states")

    def pixels(self, image_ids: Sequence[str]) -> Tensor:
        """Read prepared images of a pixel store: [B, 1, H, W] uint8, [B, 3, H, W] if not all grey;
        repeats allowed."""
        images = [
            self._read(self._images, [image_id], "image", "pixels")[0] for image_id in image_ids
        ]
        return stacked(images)

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return states [B, L, d_text] of cleaned previous reports, in the stored type, and masks
        [B, L] bool."""
        keys = [text_key(text) for text in texts]
        states = self._read(self._priors, keys, "previous report", "states")
        masks = self._read(self._priors, keys, "previous report", "mask")
        return states, masks.bool()

    def _read(
        self, places: Mapping[str, Place], names: Sequence[str], what: str, tensor: str
    ) -> Tensor:
        """Read the row of ``tensor`` for each name, [B, ...]."""
        unknown = [name for name in names if name not in places]
        if unknown:
            raise DataError(f"{self.directory} has no {what} {unknown[0]}; {_REMEDY}")
        batch = torch.empty(0)
        for number, (shard, row) in enumerate(places[name] for name in names):
            try:
                start, (rows, *shape), dtype = self._header(shard)[tensor]
                if number == 0:
                    batch = torch.empty(len(names), *shape, dtype=dtype)
                if (list(batch.shape[1:]), batch.dtype) != (shape, dtype):
                    raise ValueError("its rows have a different shape or dtype from the rest")
                content = batch[number].view(torch.uint8).numpy()
                if row >= rows:
                    raise IndexError(f"{tensor} has only {rows} rows")
                with (self.directory / shard).open("rb") as file:
                    file.seek(start + row * content.nbytes)
                    if file.readinto(content) != content.nbytes:
                        raise ValueError("the file is truncated")
            except (OSError, SafetensorError, ValueError, LookupError) as error:
                raise DataError(
                    f"{self.directory / shard} cannot be read, or does not match the index "
                    f"({type(error).__name__}: {error}); run `dvc repro -f -s features` to encode "
                    "the damaged part again"
                ) from None
        return batch


def _read_header(path: Path) -> dict[str, tuple[int, list[int], torch.dtype]]:
    """Return where each tensor of a shard starts, its shape and its type. Raises an OSError, a
    SafetensorError or a KeyError if the file is missing or damaged."""
    with safe_open(path, "pt"), path.open("rb") as file:  # safe_open checks header and size
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
    header.pop("__metadata__", None)
    return {
        name: (start + tensor["data_offsets"][0], tensor["shape"], TYPES[tensor["dtype"]])
        for name, tensor in header.items()
    }


def _places(path: Path, column: str) -> dict[str, Place]:
    """Read the place of each entry from an index. Raises a DataError if the file is missing or
    damaged."""
    try:
        rows = pl.read_parquet(path, columns=[column, "shard", "row"], glob=False).iter_rows()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(
            f"{path} is missing or damaged ({type(error).__name__}); rerun the `features` stage"
        ) from None
    return {name: Place(sys.intern(shard), row) for name, shard, row in rows}


def stacked(levels: Sequence[Tensor]) -> Tensor:
    """Stack prepared images: [B, 1, H, W] if all are grey, else [B, 3, H, W]."""
    planes = max(image.shape[0] for image in levels)
    return torch.stack([image.expand(planes, -1, -1) for image in levels])
