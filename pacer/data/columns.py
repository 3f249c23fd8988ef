"""Large Parquet tables a batch at a time, so that memory does not grow with the corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pacer.data.schemas import RECORD_SCHEMA, check_columns, check_distinct, readable

#: Records held at a time.
BATCH = 4096


class TableWriter:
    """Appends rows to a Parquet file of a fixed schema, a batch at a time. Use as a context manager."""

    def __init__(self, path: Path, schema: Mapping[str, pl.DataType]):
        self.path, self.schema = path, schema
        self.rows: list[dict[str, Any]] = []

    def __enter__(self) -> TableWriter:
        arrow = pl.DataFrame(schema=self.schema).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
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
    """The rows of a Parquet file in order, exactly ``size`` at a time (fewer at the end).

    Raises:
        DataError: the file is missing or damaged.
    """
    waiting: pl.DataFrame | None = None
    # pre-buffering would hold the compressed columns of the whole file
    with readable(path), pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
        for batch in file.iter_batches(batch_size=size, columns=None if columns is None else list(columns)):
            frame = pl.DataFrame(batch)
            waiting = frame if waiting is None else pl.concat([waiting, frame])
            while waiting.height >= size:
                yield waiting[:size]
                waiting = waiting[size:]
    if waiting is not None and waiting.height:
        yield waiting


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
