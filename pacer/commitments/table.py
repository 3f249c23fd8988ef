"""The table of anchors: its columns, and the anchor of one record."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pacer.commitments.anchor import Anchor
from pacer.commitments.vocabulary import POLARITIES
from pacer.core.errors import DataError

ANCHOR_SCHEMA: dict[str, pl.DataType] = {
    "record_id": pl.String(),
    "positive": pl.List(pl.String()),
    "negative": pl.List(pl.String()),
    "uncertain": pl.List(pl.String()),
    "origin": pl.String(),  # llm | rules
}


def read_anchor(path: str | Path, record_id: str) -> tuple[Anchor, str]:
    """The anchor of one record and its origin.

    Raises:
        DataError: the table is missing or has no anchor for this record.
    """
    if not Path(path).exists():
        raise DataError(f"{path} does not exist; run `dvc repro anchors`")
    row = pl.scan_parquet(path).filter(pl.col("record_id") == record_id).collect()
    if row.is_empty():
        raise DataError(f"{path} has no anchor for record {record_id}; make the anchors again")
    found = row.row(0, named=True)
    return Anchor(*(tuple(found[name]) for name in POLARITIES)), found["origin"]
