"""The images of a corpus: each that a record names is looked at once, and those that the kept records use are listed.

Image ids are worked through in parts, so that memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from pacer.core.io import atomic_path
from pacer.core.progress import Ticker
from pacer.corpus.images import SCHEMA
from pacer.records.columns import TableWriter, batches, distinct, hashes
from pacer.records.schemas import IMAGE_SCHEMA

#: Image ids in memory at a time, about.
_PART = 65_536
_COLUMNS = ("frontal", "lateral")


def look_at_images(
    records: Path, folder: Path, check: str, scratch: Path, out: Path, inspect: Callable[..., pl.DataFrame]
) -> dict[str, str]:
    """Write what :func:`~pacer.corpus.images.inspect_images` finds about every image of ``records`` to ``out``.

    Args:
        records: a table with the columns frontal and lateral. folder, check: see ``inspect_images``.
        scratch: where the ledgers of the images seen lie, so that a stopped run continues.

    Returns:
        Why an image cannot be used, by image id.
    """
    count = len(_used(records))
    parts = max(-(-count // _PART), 1)
    unusable: dict[str, str] = {}
    with Ticker("images", count) as ticker, TableWriter(out, SCHEMA) as headers:
        for number in range(parts):
            ledger = scratch / f"images-{number + 1}-of-{parts}.jsonl"
            found = inspect(_ids(records, number, parts), folder, check, ledger, ticker)
            unusable |= dict(found.filter(pl.col("problem").is_not_null()).select("image_id", "problem").iter_rows())
            headers.add_frame(found)
    return unusable


def keep_used_images(headers: Path, records: Path, out: Path) -> int:
    """Write the rows of ``headers`` that ``records`` use to ``out``, and return their number."""
    used = _used(records)
    count = 0
    with atomic_path(out) as temporary, TableWriter(temporary, IMAGE_SCHEMA) as images:
        for frame in batches(headers):
            own = frame["image_id"].hash().to_numpy()
            place = np.minimum(np.searchsorted(used, own), max(len(used) - 1, 0))
            kept = frame.filter(pl.Series(used[place] == own)) if len(used) else frame[:0]
            images.add_frame(kept)
            count += kept.height
    return count


def _used(records: Path) -> np.ndarray:
    """Hashes of the distinct image ids of a table of records, ascending."""
    used = np.empty(0, dtype=np.uint64)
    for column in _COLUMNS:
        used = np.concatenate([used, distinct(hashes(records, column))])
    used = distinct(used)
    return used[1:] if len(used) and used[0] == 0 else used  # 0 stands for an absent lateral view


def _ids(records: Path, number: int, parts: int) -> pl.Series:
    """The distinct image ids of one of ``parts`` parts, sorted."""
    pieces = [pa.array([], type=pa.large_string())]
    for frame in batches(records, _COLUMNS):
        for column in _COLUMNS:
            ids = frame[column].drop_nulls()
            own = ids.filter(ids.hash() % parts == number).unique()
            # Arrow's older layout copies the texts; a view would keep those of the whole batch
            pieces.append(own.to_arrow(compat_level=pl.CompatLevel.oldest()))
    return pl.Series("image_id", pa.chunked_array(pieces)).unique().sort()
