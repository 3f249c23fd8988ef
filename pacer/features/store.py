"""The feature store: tensor shards and a Parquet index, read at random by image id or report text.

Shards are mapped into memory and a row is read in one copy, from the map into the batch. The states are file pages,
which all processes of a machine share and the system may drop.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pacer.config.strict import Strict, validated
from pacer.core.errors import DataError
from pacer.core.io import hash_bytes, hash_file, hash_json, read_json

IMAGES, PRIORS, MANIFEST = "images.parquet", "priors.parquet", "manifest.json"

#: Counts the changes after which the same states are stored as other bytes; part of each entry's key.
ROUNDING_VERSION = 1

#: Stored types by the names of ``features.dtype``.
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

_REMEDY = "run the features stage on this corpus, or let `pacer decode` encode its images, without --features"


class Encoding(Strict):
    """How the states of a store come about (``encoding`` in its manifest).

    Attributes:
        mode, depths, dtype, precision: settings of the group ``features``. encoders: fingerprint of the frozen model
            ``vision`` and ``text``. rounding: :data:`ROUNDING_VERSION`.
    """

    mode: Literal["states", "pixels"]
    encoders: dict[str, str]
    depths: list[int]
    dtype: Literal["float32", "float16", "bfloat16"]
    precision: Literal["float32", "bfloat16"]
    rounding: int


class Place(NamedTuple):
    """Where an entry lies: the name of its shard's file, and the row in it."""

    shard: str
    row: int


def content_hash(directory: Path) -> str:
    """One hash of what a store gives for every id: its indexes, whose keys cover what an entry was made of, and how
    states come about."""
    encoding = read_json(directory / MANIFEST).get("encoding")
    return hash_json([hash_file(directory / IMAGES), hash_file(directory / PRIORS), encoding])


def text_key(text: str) -> str:
    """Key of a previous report: the hash of its cleaned text."""
    return hash_bytes(text.encode())[:32]


def as_stored(states: Tensor, dtype: torch.dtype, entries: Sequence[str]) -> Tensor:
    """States [B, ...] as a store of ``dtype`` holds them; ``entries`` names each of them in the error.

    Raises:
        DataError: an entry has a value that is not finite in the stored type.
    """
    stored = states.to(dtype)
    finite = stored.isfinite().flatten(1).all(1)
    if not finite.all():
        raise DataError(
            f"the states of {entries[int(finite.int().argmin())]} are not finite in the stored type; choose another "
            "features.dtype (float16 ends at 65504, bfloat16 does not), else the encoder is broken"
        )
    return stored


class FeatureStore:
    """Random access to a directory made by the features stage.

    Shards are mapped on first use and stay mapped, without an open file each. Threads may share a store. Returned
    tensors are the caller's own: a map is never handed out.

    Raises:
        DataError: the directory is no feature store, an index is damaged, an id is not in it, or a shard is missing or
            does not fit its index.
        ConfigError: the manifest tells of an encoding that this software does not know.
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        if not (self.directory / MANIFEST).exists():
            raise DataError(f"{directory} is not a feature store: it has no {MANIFEST}; {_REMEDY}")
        encoding = read_json(self.directory / MANIFEST).get("encoding")
        self.encoding = validated(encoding, f"{self.directory / MANIFEST}, encoding", Encoding)
        self._images = _places(self.directory / IMAGES, "image_id")
        self._priors = _places(self.directory / PRIORS, "text_key")
        self._open: dict[str, dict[str, Tensor]] = {}

    def __getitem__(self, image_id: str) -> Tensor:
        """States [K, N, d] of one image, as :meth:`depth_states` gives them."""
        return self.depth_states([image_id])[0]

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """States [B, K, N, d] of several images, in the stored type; repeats allowed.

        Raises:
            DataError: see the class; also a store of pixels, whose states :func:`pacer.features.online.open_features`
                makes.
        """
        return self._read(self._images, image_ids, "image", "states")

    def pixels(self, image_ids: Sequence[str]) -> Tensor:
        """Prepared images [B, 1, H, W] uint8 of a store of pixels, [B, 3, H, W] if one has colours; repeats allowed."""
        return stacked([self._read(self._images, [image_id], "image", "pixels")[0] for image_id in image_ids])

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """States [B, L, d_text] of cleaned previous reports, typed as those of images, and their masks [B, L] bool."""
        keys = [text_key(text) for text in texts]
        states, masks = (self._read(self._priors, keys, "previous report", name) for name in ("states", "mask"))
        return states, masks.bool()

    def _read(self, places: Mapping[str, Place], names: Sequence[str], what: str, tensor: str) -> Tensor:
        """The row of a shard's ``tensor`` under each name, [B, ...]."""
        if unknown := [name for name in names if name not in places]:
            raise DataError(f"{self.directory} has no {what} {unknown[0]}; {_REMEDY}")
        rows: list[Tensor] = []
        for shard, row in (places[name] for name in names):
            try:
                rows.append(self._shard(shard)[tensor][row])
            except (OSError, SafetensorError, KeyError, IndexError) as error:
                raise DataError(
                    f"{self.directory / shard} cannot be read, or does not fit the index ({type(error).__name__}: "
                    f"{error}); `dvc repro -f -s features` encodes again what is damaged"
                ) from None
        return torch.stack(rows)

    def _shard(self, name: str) -> dict[str, Tensor]:
        """The tensors of a shard, mapped into memory: a page is read when a row on it is.

        The map is private and no file stays open: a large store has more shards than a process may open files.
        """
        if name not in self._open:
            with safe_open(self.directory / name, "pt") as file:
                self._open[name] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no dictionary)
        return self._open[name]


def _places(path: Path, column: str) -> dict[str, Place]:
    """Where each entry of an index lies.

    Raises:
        DataError: the file is missing or damaged.
    """
    try:
        rows = pl.read_parquet(path, columns=[column, "shard", "row"]).iter_rows()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} is missing or damaged ({type(error).__name__}); run the features stage") from None
    return {name: Place(sys.intern(shard), row) for name, shard, row in rows}


def stacked(levels: Sequence[Tensor]) -> Tensor:
    """Prepared images as one tensor: [B, 1, H, W] if all are grey, else [B, 3, H, W]."""
    planes = max(image.shape[0] for image in levels)
    return torch.stack([image.expand(planes, -1, -1) for image in levels])
