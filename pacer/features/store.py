"""The feature store: tensor shards and a Parquet index, read at random by image id or report text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch
from safetensors import safe_open
from torch import Tensor

from pacer.core.errors import DataError
from pacer.core.io import hash_bytes

IMAGES, PRIORS, MANIFEST = "images.parquet", "priors.parquet", "manifest.json"


def text_key(text: str) -> str:
    """Key of a previous report: the hash of its cleaned text."""
    return hash_bytes(text.encode())[:32]


class FeatureStore:
    """Random access to a directory made by the features stage.

    Shards are opened on first use in each process, so a store may be passed to workers.

    Raises:
        DataError: the directory is no feature store, or an id is not in it.
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        if not (self.directory / MANIFEST).exists():
            raise DataError(f"{directory} is not a feature store: it has no {MANIFEST}; run the features stage")
        self._images = _index(self.directory / IMAGES, "image_id")
        self._priors = _index(self.directory / PRIORS, "text_key")
        self._open: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_open": {}}

    def __getitem__(self, image_id: str) -> Tensor:
        """States [K, N, d] of one image, in the stored type."""
        return self._row(self._images, image_id, "image", "states")

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """States [B, K, N, d] of several images."""
        return torch.stack([self[image_id] for image_id in image_ids])

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """States [B, L, d_text] of cleaned previous reports and their masks [B, L] bool."""
        keys = [text_key(text) for text in texts]
        states = torch.stack([self._row(self._priors, key, "previous report", "states") for key in keys])
        return states, torch.stack([self._row(self._priors, key, "previous report", "mask") for key in keys]).bool()

    def _row(self, index: dict[str, tuple[str, int]], key: str, what: str, tensor: str) -> Tensor:
        if key not in index:
            raise DataError(f"{self.directory} has no {what} {key}; run the features stage on this corpus")
        shard, row = index[key]
        if shard not in self._open:
            self._open[shard] = safe_open(self.directory / shard, "pt")
        return self._open[shard].get_slice(tensor)[row]


def _index(path: Path, key: str) -> dict[str, tuple[str, int]]:
    table = pl.read_parquet(path, columns=[key, "shard", "row"])
    return {k: (shard, row) for k, shard, row in table.iter_rows()}
