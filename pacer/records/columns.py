"""Large Parquet tables a batch at a time, so that memory does not grow with the corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pacer.core.errors import DataError
from pacer.records.schemas import ABOUT, RECORD_SCHEMA, check_columns

#: Records held at a time.
BATCH = 4096


class TableWriter:
    """Appends rows to a Parquet file of a fixed schema, a batch at a time. Use as a context manager.

    Args:
        about: what the file says about itself (:func:`~pacer.records.schemas.read_about`).
    """

    def __init__(self, path: Path, schema: Mapping[str, pl.DataType], about: Mapping[str, Any] | None = None):
        self.path, self.schema, self.about = path, schema, about
        self.rows: list[dict[str, Any]] = []

    def __enter__(self) -> TableWriter:
        arrow = pl.DataFrame(schema=self.schema).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
        if self.about is not None:
            arrow = arrow.with_metadata({ABOUT: json.dumps(self.about)})
        self.writer = pq.ParquetWriter(self.path, arrow, compression="zstd", write_page_checksum=True)
        return self

    def add(self, row: dict[str, Any]) -> None:
        """Append one row, a value for every column."""
        self.rows.append(row)
        if len(self.rows) >= BATCH:
            self._flush()

    def add_frame(self, frame: pl.DataFrame) -> None:
        """Append a table of the writer's columns."""
        if frame.height:
            table = frame.select(list(self.schema)).to_arrow(compat_level=pl.CompatLevel.oldest())
            self.writer.write_table(table.cast(self.writer.schema))

    def _flush(self) -> None:
        if self.rows:
            columns = {name: [row[name] for row in self.rows] for name in self.schema}
            self.writer.write_table(pa.table(columns, schema=self.writer.schema))
            self.rows.clear()

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._flush()
        self.writer.close()


def batches(path: Path, columns: Sequence[str] | None = None, size: int = 4 * BATCH) -> Iterator[pl.DataFrame]:
    """The rows of a Parquet file in order, exactly ``size`` at a time (fewer at the end)."""
    # pre-buffering would hold the compressed columns of the whole file
    with pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
        waiting: pl.DataFrame | None = None
        for batch in file.iter_batches(batch_size=size, columns=None if columns is None else list(columns)):
            frame = pl.DataFrame(batch)
            waiting = frame if waiting is None else pl.concat([waiting, frame])
            while waiting.height >= size:
                yield waiting[:size]
                waiting = waiting[size:]
        if waiting is not None and waiting.height:
            yield waiting


def check_records(path: Path) -> None:
    """What :func:`~pacer.records.schemas.read_records` refuses, without holding the table in memory.

    Raises:
        DataError: the file is missing or unreadable, its columns differ, or a record id occurs twice.
    """
    check_columns(path, RECORD_SCHEMA)
    ids = pl.read_parquet(path, columns=["record_id"])["record_id"]
    if ids.n_unique() != len(ids):
        raise DataError(f"{path} holds record {ids.filter(ids.is_duplicated())[0]} twice; make the corpus again")


def read_columns(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Some columns of ``records.parquet``, checked as :func:`check_records` does."""
    check_records(path)
    return pl.read_parquet(path, columns=list(columns))
