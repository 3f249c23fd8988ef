"""Compressed sources on disk: what Calibrate's frozen parent makes of a record's images and previous report.

Refine and the compressors are frozen in that phase and see no dropout, so their result [Q, d_v] per source is computed
once for each record that the phase visits and then read in place of the much larger encoder states.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pacer.core.contexts import CONTEXTS, availability
from pacer.core.errors import DataError, PacerError
from pacer.core.io import atomic_path, read_json, write_json
from pacer.core.progress import Ticker
from pacer.model.collate import Sources, read_sources
from pacer.model.pacer import Pacer, SourceStates
from pacer.parallel.prefetch import prefetch
from pacer.training.examples import Examples
from pacer.training.plan import Visits

#: Records in one file, and records compressed at a time.
_BLOCK, _BATCH = 256, 32
_NAME = "tokens"
#: Whether the cache is used, decided once.
_DECISION = "used.json"
#: Slots (frontal, lateral, prior) that each context fills.
_SLOTS = np.array([(True, *availability(context)) for context in CONTEXTS])


class SourceCache:
    """Random access to the compressed sources of ``rows`` (ascending) in a directory of block files.

    Args:
        context: place in CONTEXTS of every row of the record table. shape: (Q, d_v). dtype: as stored.
    """

    def __init__(
        self, directory: Path, rows: np.ndarray, context: np.ndarray, shape: tuple[int, int], dtype: torch.dtype
    ):
        self.directory, self.rows, self.shape, self.dtype = directory, rows, shape, dtype
        self.slots = _SLOTS[context[rows]]
        self.first = np.concatenate([[0], np.cumsum(self.slots.sum(1))])
        self._open: dict[int, Any] = {}

    @property
    def nbytes(self) -> int:
        """Size of all files."""
        return int(self.first[-1]) * self.shape[0] * self.shape[1] * self.dtype.itemsize

    def blocks(self) -> list[np.ndarray]:
        """The rows of each file."""
        return [self.rows[start : start + _BLOCK] for start in range(0, len(self.rows), _BLOCK)]

    def path(self, block: int) -> Path:
        """File of a block."""
        return self.directory / f"sources-{block:06d}.safetensors"

    def _slice(self, block: int) -> Any:
        try:
            return safe_open(self.path(block), "pt").get_slice(_NAME)
        except (OSError, SafetensorError) as error:
            raise DataError(
                f"{self.path(block)} cannot be read ({error}); remove {self.directory} and start again"
            ) from None

    def read(self, rows: Sequence[int] | np.ndarray) -> Tensor:
        """[B, 3, Q, d_v] of these rows, zeros where a source is absent.

        Raises:
            KeyError: a row is not one of ``self.rows``.
        """
        out = torch.zeros(len(rows), 3, *self.shape, dtype=self.dtype)
        places = np.searchsorted(self.rows, rows).clip(max=len(self.rows) - 1)
        if len(unknown := np.flatnonzero(self.rows[places] != rows)):
            raise KeyError(f"row {rows[unknown[0]]} has no compressed sources")
        for target, place in zip(out, places, strict=True):
            block = int(place) // _BLOCK
            if block not in self._open:
                self._open[block] = self._slice(block)
            start, end = self.first[[place, place + 1]] - self.first[block * _BLOCK]
            target[torch.from_numpy(self.slots[place])] = self._open[block][int(start) : int(end)]
        return out


def open_source_cache(
    switch: str,
    visits: Visits,
    model: Pacer,
    examples: Examples,
    accelerator: Accelerator,
    directory: Path,
    workers: int,
    dtype: torch.dtype | None = None,
) -> SourceCache | None:
    """The filled cache of the records that a phase visits, or None where it is off or would not pay.

    It pays when the bytes read and written with it are fewer than those read without, and the disk has room for it.

    Args:
        switch: ``auto`` | ``on`` | ``off``. model: whose Refine and compressors are frozen, on its device.
        directory: of the files; a stopped run continues at the next file. dtype: as stored; None: as computed.

    Raises:
        PacerError: it is ``on`` and the disk has no room.
    """
    if switch == "off" or len(visits.rows) == 0:
        return None
    model.eval()
    queries = model.interface.queries
    shape = queries.shape[0], queries.shape[1]
    cache = SourceCache(directory, visits.rows, examples.table.context, shape, dtype or queries.dtype)
    direct = _bytes_of_states(examples, visits.rows)
    kept = cache.slots.sum(1) * (cache.nbytes // max(int(cache.first[-1]), 1))
    without, once = int((direct * visits.counts).sum()), int(direct.sum())
    with_cache = once + cache.nbytes + int((kept * visits.counts).sum())
    plan = (
        f"source cache: {len(visits.rows)} records, {cache.nbytes / 1e9:.2f} GB on disk; "
        f"{with_cache / 1e9:.2f} GB moved with it, {without / 1e9:.2f} GB without"
    )
    if accelerator.is_main_process and not (directory / _DECISION).exists():
        directory.mkdir(parents=True, exist_ok=True)
        room = 0.95 * shutil.disk_usage(directory).free > cache.nbytes
        if switch == "on" and not room:
            raise PacerError(f"{plan}; the disk has no room for it: free some, or set calibrate.source_cache: off")
        use = switch == "on" or (room and with_cache < without)
        print(f"{plan}: {'used' if use else 'not used'}{'' if room else ' (no room on the disk)'}", flush=True)
        write_json(directory / _DECISION, use)  # for all processes, and for a run that goes on after a stop
    accelerator.wait_for_everyone()
    if not read_json(directory / _DECISION):
        return None
    _fill(cache, model, examples, accelerator, workers)
    return cache


def _bytes_of_states(examples: Examples, rows: np.ndarray) -> np.ndarray:
    """Bytes of the stored states of each row's sources; states of one kind are all of a size."""
    slots = _SLOTS[examples.table.context[rows]]
    size = np.zeros(3)
    for slot in range(3):
        found = np.flatnonzero(slots[:, slot])
        if len(found):
            states = read_sources([Sources.of(examples.table.row(int(rows[found[0]])))], examples.features)
            tensor = (states.frontal, states.lateral, states.prior)[slot]
            assert tensor is not None
            size[slot] = tensor.nbytes
    return slots @ size


def _fill(cache: SourceCache, model: Pacer, examples: Examples, accelerator: Accelerator, workers: int) -> None:
    """Write the files that are missing; processes take turns."""
    blocks = cache.blocks()
    mine = range(accelerator.process_index, len(blocks), accelerator.num_processes)
    missing = [block for block in mine if not cache.path(block).exists()]
    parts = [rows for block in missing for rows in _parts(blocks[block])]

    def read(rows: np.ndarray) -> SourceStates:
        return read_sources([Sources.of(examples.table.row(int(row))) for row in rows], examples.features)

    batches = prefetch(read, parts, workers)
    with Ticker("compress sources", sum(len(part) for part in parts), shown=accelerator.is_main_process) as ticker:
        for block in missing:
            tokens = []
            for rows in _parts(blocks[block]):
                slots = torch.from_numpy(_SLOTS[examples.table.context[rows]])
                tokens.append(_compressed(model, next(batches), accelerator)[slots])
                ticker.advance(len(rows))
            with atomic_path(cache.path(block)) as temporary:
                save_file({_NAME: torch.cat(tokens).to(cache.dtype)}, temporary)
    accelerator.wait_for_everyone()


def _parts(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]


@torch.no_grad()
def _compressed(model: Pacer, states: SourceStates, accelerator: Accelerator) -> Tensor:
    """[B, 3, Q, d_v] on the CPU."""
    return model.compress(states.to(accelerator.device)).tokens.cpu()
