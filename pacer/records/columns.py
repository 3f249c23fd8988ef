"""Large Parquet tables a batch at a time, so that memory does not grow with the corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
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
    repeated = repeated_rows(path, "record_id")
    if repeated:
        twice = texts(path, "record_id", np.array([min(repeated)]))[0]
        raise DataError(f"{path} holds record {twice} twice; make the corpus again")


def read_columns(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Some columns of ``records.parquet``, checked as :func:`check_records` does."""
    check_records(path)
    empty = pl.DataFrame(schema={name: RECORD_SCHEMA[name] for name in columns})
    return pl.concat([empty, *batches(path, columns)])


def hashes(path: Path, column: str) -> np.ndarray:
    """A 64-bit hash of every value of a text column [rows] (null: 0). Equal texts have equal hashes."""
    found = np.empty(pq.read_metadata(path).num_rows, dtype=np.uint64)
    first = 0
    for frame in batches(path, [column]):
        part = found[first : first + frame.height]
        part[:] = frame[column].hash().to_numpy()
        part[frame[column].is_null().to_numpy()] = 0
        first += frame.height
    return found


def texts(path: Path, column: str, rows: np.ndarray) -> list[str]:
    """The values of a text column in these rows (ascending)."""
    found: list[str] = []
    first = 0
    for frame in batches(path, [column]):
        inside = rows[(rows >= first) & (rows < first + frame.height)] - first
        found += frame[column][inside.tolist()].to_list()
        first += frame.height
    return found


def repeated_rows(path: Path, column: str) -> set[int]:
    """Row numbers whose text stands in an earlier row as well."""
    found = hashes(path, column)
    order = np.argsort(found, kind="stable")
    equal = found[order[1:]] == found[order[:-1]]
    if not equal.any():
        return set()
    # equal hashes are all but certainly equal texts; look at the texts to be certain
    suspects = np.unique(np.concatenate([order[1:][equal], order[:-1][equal]]))
    seen: set[str] = set()
    repeated: set[int] = set()
    for row, text in zip(suspects.tolist(), texts(path, column, suspects), strict=True):
        if text in seen:
            repeated.add(row)
        seen.add(text)
    return repeated
