"""RAGPT's retrieval bank: the compressed sources of complete train examinations, and the neighbours
of every image in it.

    entries.parquet       one row per entry: record_id, study_id, subject_id
    sources/              compressed sources [3, Q, d_v] of the entries, in files that are mapped
    neighbours.parquet    one row per frontal image: its k nearest entries of other subjects
    bank.json             its inputs: hashes of parent, store and records, settings, counts

It contains only records of split train whose subject is in no other split.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from pacer.config.baselines import Bank
from pacer.core.devices import compute_device
from pacer.core.errors import DataError
from pacer.core.io import atomic_directory, atomic_path, hash_file, hash_json, write_json
from pacer.core.progress import Ticker
from pacer.features.encoder import open_features
from pacer.features.store import content_hash
from pacer.model.assemble import load_model
from pacer.model.batch import read_sources
from pacer.model.checkpoint import checkpoint_hash
from pacer.training.run import mixed_precision

_ENTRIES = "entries.parquet"
_NEIGHBOURS = "neighbours.parquet"
_ABOUT = "bank.json"
_SOURCES = "sources"
#: Name of the tensor in a file of sources.
_TENSOR = "tokens"
#: Entries in one file.
_BLOCK = 256
#: Rows compressed at a time.
_BATCH = 32
#: Queries compared at a time.
_QUERIES = 1024


def bank_entries(records: pl.DataFrame) -> pl.DataFrame:
    """Return the records of the bank: train, context mw, of subjects in no other split. Raises a
    DataError if there are none."""
    elsewhere = records.filter(pl.col("split") != "train")["subject_id"].unique()
    complete = records.filter((pl.col("split") == "train") & (pl.col("context") == "mw"))
    entries = complete.filter(~pl.col("subject_id").is_in(elsewhere.to_list()))
    if entries.is_empty():
        raise DataError(
            "no records for RAGPT's bank: it needs training records with a lateral view and a "
            "previous report (context mw), from subjects in no other split"
        )
    return entries


def nearest(
    queries: Tensor,
    keys: Tensor,
    query_subjects: Iterable[str],
    key_subjects: Iterable[str],
    k: int,
) -> Tensor:
    """Return the k entries with the largest cosine for each query [n, k], the nearest first, none
    of the same subject. Raises a DataError if fewer than k entries remain without those of some
    subject.

    Args:
        queries: [n, d_v], keys: [m, d_v], of unit norm.
    """
    _, subjects = np.unique([*key_subjects, *query_subjects], return_inverse=True)
    of_keys, of_queries = torch.from_numpy(subjects).split([len(keys), len(queries)])
    most = torch.bincount(of_keys).max().item()
    if len(keys) - most < k:
        raise DataError(
            f"RAGPT's bank has {len(keys)} entries, {most} of them from one subject, which leaves "
            f"fewer than the {k} neighbours needed from other subjects; lower ragpt.bank.neighbours"
        )
    parts = zip(queries.split(_QUERIES), of_queries.split(_QUERIES), strict=True)
    indices = [
        (part @ keys.T).masked_fill_(subject[:, None] == of_keys, -torch.inf).topk(k, dim=1).indices
        for part, subject in parts
    ]
    return torch.cat(indices)


def build_bank(
    settings: Bank,
    precision: str,
    records: pl.DataFrame,
    backbones: Path,
    features: Path,
    parent: Path,
    out: Path,
) -> None:
    """Build the bank of ``parent`` and publish it as ``out``, in one process. Raises a DataError as
    :func:`bank_entries` and :func:`nearest` do.

    Args:
        precision: ``train.precision``.
        records: of all splits; each of their frontal images gets its neighbours.
    """
    entries = bank_entries(records)
    images = records.select("frontal", "subject_id").unique(maintain_order=True)
    precision = mixed_precision(precision)
    about = {
        "parent": checkpoint_hash(parent),
        "features": content_hash(features),
        "settings": settings.model_dump(),
        "precision": precision,
        "entries": len(entries),
        "images": len(images),
        "records": hash_json([entries["record_id"].to_list(), images.to_dicts()]),
    }
    device = compute_device()
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = load_model(parent, backbones, dtype)[0].to(device)
    store = open_features(features, backbones, device)

    def sources_of(rows: list[dict[str, Any]]) -> Tensor:
        """Return the compressed sources [n, 3, Q, d_v]."""
        refined, _ = model.refine_sources(read_sources(rows, store).to(device))
        return model.interface.compress(refined).to(dtype)

    def keys_of(rows: list[dict[str, Any]]) -> Tensor:
        """Return the mean of the compressed frontal tokens, with unit norm [n, d_v]."""
        states = store.depth_states([row["frontal"] for row in rows]).to(device)
        tokens = model.interface.compress_frontal(model.refine(states)[0])
        return F.normalize(tokens.float().mean(1), dim=-1)

    with (
        atomic_directory(out) as directory,
        Ticker("ragpt_bank", len(entries) + len(images)) as ticker,
        torch.no_grad(),
    ):
        for number, block in enumerate(entries.iter_slices(_BLOCK)):
            with atomic_path(directory / _SOURCES / f"{number:06d}.safetensors") as temporary:
                save_file({_TENSOR: _in_batches(sources_of, block, ticker)}, temporary)
        keys = _in_batches(keys_of, images, ticker)
        place = {image: number for number, image in enumerate(images["frontal"])}
        entry_keys = keys[[place[image] for image in entries["frontal"]]]
        neighbours = nearest(
            keys, entry_keys, images["subject_id"], entries["subject_id"], settings.neighbours
        )
        table = pl.DataFrame({"frontal": images["frontal"], "entries": neighbours.tolist()})
        table.write_parquet(directory / _NEIGHBOURS)
        entries.select("record_id", "study_id", "subject_id").write_parquet(directory / _ENTRIES)
        write_json(directory / _ABOUT, about)


def _in_batches(
    compute: Callable[[list[dict[str, Any]]], Tensor], rows: pl.DataFrame, ticker: Ticker
) -> Tensor:
    results = []
    for batch in rows.iter_slices(_BATCH):
        results.append(compute(batch.to_dicts()).cpu())
        ticker.advance(len(batch))
    return torch.cat(results)


class Retrieval:
    """Reads the neighbours of frontal images from a bank that :func:`build_bank` wrote. ``hash``:
    of the bank's inputs."""

    def __init__(self, directory: Path):
        self.hash = hash_file(directory / _ABOUT)
        table = pl.read_parquet(directory / _NEIGHBOURS, glob=False)
        self._entries = np.array(table["entries"].to_list(), dtype=np.int64)
        self._place = {image: number for number, image in enumerate(table["frontal"])}
        #: Mapped into memory.
        self._sources = [
            load_file(path)[_TENSOR] for path in sorted((directory / _SOURCES).iterdir())
        ]

    def read(self, frontals: Sequence[str]) -> Tensor:
        """Return the compressed sources [B, k, 3, Q, d_v] of each image's neighbours, the nearest
        first."""
        entries = self._entries[[self._place[image] for image in frontals]]
        rows = [
            self._sources[entry // _BLOCK][entry % _BLOCK] for entry in entries.ravel().tolist()
        ]
        return torch.stack(rows).unflatten(0, entries.shape)
