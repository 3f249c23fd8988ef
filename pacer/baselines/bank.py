"""RAGPT's retrieval bank: the compressed sources of complete train studies, and every image's neighbours in it.

    entries.parquet       one row per entry: record_id, study_id, subject_id
    sources/              compressed sources [3, Q, d_v] of the entries, in files that are mapped, not loaded
    neighbours.parquet    one row per frontal image: its k nearest entries of other subjects and their similarity
    bank.json             its inputs: hashes of parent, store and records, settings, precision, counts

It contains only records of split train whose subject is in no other split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from pacer.config.baselines import Bank
from pacer.core.errors import CheckpointError, DataError
from pacer.core.io import atomic_path, hash_file, hash_json, publish, read_json, scratch_directory, write_json
from pacer.core.processes import open_accelerator
from pacer.core.progress import Ticker
from pacer.features.online import open_features
from pacer.features.store import content_hash
from pacer.model.assemble import load_model
from pacer.model.checkpoint import checkpoint_hash
from pacer.model.pacer import read_sources
from pacer.training.run import mixed_precision

_ENTRIES, _NEIGHBOURS, _ABOUT, _SOURCES, _KEYS = "entries.parquet", "neighbours.parquet", "bank.json", "sources", "keys"
#: Name of the tensor in a file of sources or keys.
_TENSOR = "tokens"
#: Entries or images in one file, number compressed at a time, and queries compared at a time.
_BLOCK, _BATCH, _QUERIES = 256, 32, 1024


def bank_entries(records: pl.DataFrame, settings: Bank) -> pl.DataFrame:
    """Return the records of the bank: train, context mw, of subjects in no other split; at most ``settings.entries``.

    Raises:
        DataError: there are none.
    """
    elsewhere = records.filter(pl.col("split") != "train")["subject_id"].unique()
    complete = records.filter((pl.col("split") == "train") & (pl.col("context") == "mw"))
    entries = complete.filter(~pl.col("subject_id").is_in(elsewhere.to_list()))
    if entries.is_empty():
        raise DataError(
            "RAGPT's bank is made of train records with a lateral view and a previous report (context mw): "
            + ("there are none" if complete.is_empty() else "another split has all of their subjects")
        )
    if settings.entries is not None and settings.entries < len(entries):
        chosen = np.random.default_rng(settings.seed).permutation(len(entries))[: settings.entries]
        entries = entries[np.sort(chosen)]
    return entries


def nearest(
    queries: Tensor, keys: Tensor, query_subjects: Sequence[str], key_subjects: Sequence[str], k: int
) -> tuple[Tensor, Tensor]:
    """Return the k entries with the largest cosine for each query, none of its own subject.

    Args:
        queries: [n, d_v], keys: [m, d_v], of unit norm.

    Returns:
        entries [n, k] and their cosines [n, k], the nearest first.

    Raises:
        DataError: fewer than k entries remain without those of some subject.
    """
    _, subjects = np.unique([*key_subjects, *query_subjects], return_inverse=True)
    of_keys, of_queries = torch.from_numpy(subjects).split([len(keys), len(queries)])
    most = torch.bincount(of_keys).max().item()
    if len(keys) - most < k:
        raise DataError(
            f"RAGPT's bank has {len(keys)} entries, {most} of them of one subject; {k} neighbours of other "
            "subjects are needed: lower ragpt.bank.neighbours or take more entries"
        )
    top = [
        (part @ keys.T).masked_fill_(subject[:, None] == of_keys, -torch.inf).topk(k, dim=1)
        for part, subject in zip(queries.split(_QUERIES), of_queries.split(_QUERIES), strict=True)
    ]
    return torch.cat([part.indices for part in top]), torch.cat([part.values for part in top])


def build_bank(
    settings: Bank, precision: str, records: pl.DataFrame, backbones: Path, features: Path, parent: Path, out: Path
) -> None:
    """Build the bank of ``parent`` and publish it as ``out``. A stopped run continues.

    Args:
        precision: ``train.precision``. records: of all splits; each of their frontal images gets its neighbours.

    Raises:
        DataError: see :func:`bank_entries`, :func:`nearest`; or an image belongs to two subjects.
    """
    accelerator = open_accelerator(mixed_precision(precision))
    entries = bank_entries(records, settings)
    images = records.select("frontal", "subject_id").unique(maintain_order=True)
    if images["frontal"].n_unique() != len(images):
        twice = images.filter(pl.col("frontal").is_duplicated())["frontal"][0]
        raise DataError(f"frontal image {twice} belongs to two subjects; look at the corpus audit")
    about = {
        "parent": checkpoint_hash(parent),
        "features": content_hash(features),
        "settings": settings.model_dump(),
        "precision": accelerator.mixed_precision,
        "entries": len(entries),
        "images": len(images),
        "records": hash_json([entries["record_id"].to_list(), images.to_dicts()]),
    }
    main = accelerator.is_main_process
    with scratch_directory(out, hash_json(about), main=main) as directory:
        final = directory / "out"
        dtype = torch.bfloat16 if accelerator.mixed_precision == "bf16" else torch.float32
        model = load_model(parent, backbones, dtype)[0].to(accelerator.device)
        store = open_features(features, backbones, accelerator.device)

        def sources_of(rows: list[dict[str, Any]]) -> Tensor:
            """Return the compressed sources [n, 3, Q, d_v]."""
            return model.compress(read_sources(rows, store).to(accelerator.device)).tokens.to(dtype)

        def keys_of(frontals: list[str]) -> Tensor:
            """Return the mean of the compressed frontal tokens, with unit norm [n, d_v]."""
            states = store.depth_states(frontals).to(accelerator.device)
            tokens = model.interface.compress_frontal(model.refine(states)[0])
            return F.normalize(tokens.float().mean(1), dim=-1)

        _write_blocks(sources_of, entries.to_dicts(), final / _SOURCES, accelerator)
        _write_blocks(keys_of, images["frontal"].to_list(), directory / _KEYS, accelerator)
        accelerator.wait_for_everyone()
        if main:
            _write_tables(entries, images, torch.cat(_read_blocks(directory / _KEYS)), settings.neighbours, final)
            write_json(final / _ABOUT, about)
            publish(final, out)
    accelerator.wait_for_everyone()


def _write_tables(entries: pl.DataFrame, images: pl.DataFrame, keys: Tensor, k: int, directory: Path) -> None:
    """Write the entries, and the k nearest entries of each image; ``keys`` is [images, d_v]."""
    place = {image: number for number, image in enumerate(images["frontal"])}
    entry_keys = keys[[place[image] for image in entries["frontal"]]]
    subjects = images["subject_id"].to_list(), entries["subject_id"].to_list()
    numbers, similarity = nearest(keys, entry_keys, *subjects, k)
    neighbours = pl.DataFrame(
        {"frontal": images["frontal"], "entries": numbers.tolist(), "similarity": similarity.tolist()}
    )
    entries.select("record_id", "study_id", "subject_id").write_parquet(directory / _ENTRIES)
    neighbours.write_parquet(directory / _NEIGHBOURS)


@torch.no_grad()
def _write_blocks(
    compute: Callable[[list[Any]], Tensor], items: list[Any], directory: Path, accelerator: Accelerator
) -> None:
    """Write the results of ``compute`` for all items, in files of ``_BLOCK``. Processes take files in turn; files of a
    stopped run are kept."""
    with Ticker(directory.name, len(items), shown=accelerator.is_main_process) as ticker:
        for number in range(accelerator.process_index, -(-len(items) // _BLOCK), accelerator.num_processes):
            path = directory / f"{number:06d}.safetensors"
            if path.exists():
                continue
            block = items[number * _BLOCK : (number + 1) * _BLOCK]
            batches = [block[first : first + _BATCH] for first in range(0, len(block), _BATCH)]
            with atomic_path(path) as temporary:
                save_file({_TENSOR: torch.cat([compute(batch).cpu() for batch in batches])}, temporary)
            ticker.advance(len(block))


def _read_blocks(directory: Path) -> list[Tensor]:
    """Return the tensors of all files, mapped into memory."""
    return [load_file(path)[_TENSOR] for path in sorted(directory.iterdir())]


class Retrieval:
    """A bank on disk, which gives the neighbours of a frontal image.

    Args:
        directory: output of :func:`build_bank`. parent: the checkpoint that it must have been built with.

    Attributes:
        hash: of the bank's inputs.

    Raises:
        CheckpointError: the bank was built with another parent.
    """

    def __init__(self, directory: Path, parent: Path):
        self.hash = hash_file(directory / _ABOUT)
        if read_json(directory / _ABOUT)["parent"] != checkpoint_hash(parent):
            raise CheckpointError(f"{directory} was made with another parent than {parent}; run stage `ragpt_bank`")
        table = pl.read_parquet(directory / _NEIGHBOURS)
        self._entries = np.array(table["entries"].to_list(), dtype=np.int64)
        self._place = {image: number for number, image in enumerate(table["frontal"])}
        self._sources = _read_blocks(directory / _SOURCES)

    def entries(self, frontals: Sequence[str]) -> np.ndarray:
        """Return the entry numbers [B, k] of each image's neighbours, the nearest first.

        Raises:
            DataError: the bank has no neighbours of an image.
        """
        if unknown := [image for image in frontals if image not in self._place]:
            raise DataError(
                f"RAGPT's bank has no neighbours of image {unknown[0]}; make it for this corpus (stage `ragpt_bank`)"
            )
        return self._entries[[self._place[image] for image in frontals]]

    def read(self, frontals: Sequence[str]) -> Tensor:
        """Return the compressed sources [B, k, 3, Q, d_v] of each image's neighbours."""
        entries = self.entries(frontals)
        rows = [self._sources[entry // _BLOCK][entry % _BLOCK] for entry in entries.ravel().tolist()]
        return torch.stack(rows).unflatten(0, entries.shape)
