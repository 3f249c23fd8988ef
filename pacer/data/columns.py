"""Large Parquet tables a part at a time, so that memory does not grow with the corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from pacer.data.schemas import RECORD_SCHEMA, check_columns, check_distinct, readable


def batches(path: Path, columns: Sequence[str] | None = None, size: int = 16_384) -> Iterator[pl.DataFrame]:
    """The rows of a Parquet file in order, exactly ``size`` at a time (fewer at the end).

    Raises:
        DataError: the file is missing or damaged.
    """
    wanted = None if columns is None else list(columns)
    # pre-buffering would hold the compressed columns of the whole file
    with readable(path), pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
        for batch in file.iter_batches(batch_size=size, columns=wanted):
            yield pl.DataFrame(batch)


def read_columns(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Some columns of ``records.parquet``, which is refused as :func:`~pacer.data.schemas.read_records` does.

    Raises:
        DataError: the file is missing or unreadable, its columns differ, or a record id occurs twice.
    """
    check_columns(path, RECORD_SCHEMA)
    with readable(path):
        wanted = list(dict.fromkeys(["record_id", *columns]))
        table = pl.DataFrame(pq.read_table(path, columns=wanted, page_checksum_verification=True))
    check_distinct(table, path)
    return table.select(columns)
