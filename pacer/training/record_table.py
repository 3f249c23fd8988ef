"""The records of a phase, read where they lie: an uncompressed Arrow file that the process maps instead of loading.

A row is decoded when its batch is made. What stays resident is one small number per record and column that the order
of training needs; the texts are file pages, which all processes of a machine share and the system may drop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import atomic_path
from pacer.records.columns import batches
from pacer.records.schemas import SPLITS

COLUMNS = (
    "record_id",
    "context",
    "split",
    "view",
    "frontal",
    "lateral",
    "report",
    "sections",
    "prior_report",
    "indication",
    "history",
    "emphasis",
    "emphasis_text",
)
ANCHOR_COLUMNS = ("positive", "negative", "uncertain")

#: Rows of one block of the mapped file.
_BLOCK = 4096
_REMEDY = "run the anchors stage on these records"


class RecordTable:
    """Rows of records (and their commitments), by number.

    Attributes:
        context, split: place in CONTEXTS and SPLITS of each record, uint8 [rows].
    """

    def __init__(self, blocks: Sequence[pa.RecordBatch]):
        self.blocks = [block for block in blocks if block.num_rows]
        self.first = np.cumsum([0, *(block.num_rows for block in self.blocks)])
        frames = [pl.DataFrame(block.select(["context", "split"])) for block in self.blocks]
        self.context = _joined([_codes(frame["context"], CONTEXTS) for frame in frames], np.uint8)
        self.split = _joined([_codes(frame["split"], SPLITS) for frame in frames], np.uint8)

    @classmethod
    def of(cls, records: pl.DataFrame, anchors: pl.DataFrame | None = None) -> RecordTable:
        """Tables that are in memory already; ``anchors`` in the order of ``records``.

        Raises:
            DataError: a record has no anchor in its place.
        """
        return cls(_arrow(_join(records, anchors, 0)).to_batches(max_chunksize=_BLOCK))

    @classmethod
    def map(cls, path: Path) -> RecordTable:
        """A file that :func:`write_record_table` wrote, mapped into memory."""
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        return cls([reader.get_batch(number) for number in range(reader.num_record_batches)])

    def __len__(self) -> int:
        return int(self.first[-1])

    @property
    def labelled(self) -> bool:
        """Whether the rows hold commitments."""
        return not self.blocks or ANCHOR_COLUMNS[0] in self.blocks[0].schema.names

    def row(self, number: int) -> dict[str, Any]:
        """All columns of one record."""
        block, place = self._place(number)
        return block.slice(place, 1).to_pylist()[0]

    def record_id(self, number: int) -> str:
        """The id of one record."""
        block, place = self._place(number)
        return block.column("record_id")[place].as_py()

    def in_blocks(self) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """All records in order: the number of the first row of a block, and the block's rows."""
        for first, block in zip(self.first, self.blocks, strict=False):
            yield int(first), block.to_pylist()

    def _place(self, number: int) -> tuple[pa.RecordBatch, int]:
        block = int(np.searchsorted(self.first, number, side="right")) - 1
        return self.blocks[block], number - int(self.first[block])

    def rows(self, split: str, contexts: Sequence[str]) -> dict[str, np.ndarray]:
        """Row numbers of a split per context, int32, in the order of ``contexts``."""
        inside = self.split == SPLITS.index(split)
        return {c: np.flatnonzero(inside & (self.context == CONTEXTS.index(c))).astype(np.int32) for c in contexts}


def write_record_table(records: Path, anchors: Path | None, contexts: Sequence[str], path: Path) -> None:
    """Write the mapped form of ``records.parquet`` (rows of ``contexts``) and, beside each row, its commitment.

    Args:
        anchors: ``anchors.parquet``, one row per record in the same order, or None.

    Raises:
        DataError: a record has no anchor in its place.
    """
    beside = iter(()) if anchors is None else batches(anchors, ["record_id", *ANCHOR_COLUMNS], _BLOCK)
    with atomic_path(path) as temporary, ExitStack() as stack:
        writer, first = None, 0
        for frame in batches(records, COLUMNS, _BLOCK):
            labels = None if anchors is None else next(beside, pl.DataFrame())
            joined = _arrow(_join(frame, labels, first).filter(pl.col("context").is_in(list(contexts))))
            first += frame.height
            writer = writer or stack.enter_context(pa.ipc.new_file(temporary, joined.schema))
            writer.write_table(joined.combine_chunks())
        if writer is None:
            raise DataError(f"{records} holds no record")
        if next(beside, None) is not None:
            raise DataError(f"the anchors have rows beyond those of the records (row {first}); {_REMEDY}")


def _join(records: pl.DataFrame, anchors: pl.DataFrame | None, first: int) -> pl.DataFrame:
    records = records.select(COLUMNS)
    if anchors is None:
        return records
    ids = anchors["record_id"] if anchors.width else pl.Series("record_id", [], dtype=pl.String)
    if len(ids) > records.height:
        raise DataError(f"the anchors have rows beyond those of the records (row {first + records.height}); {_REMEDY}")
    for number, record_id in enumerate(records["record_id"]):
        if number >= len(ids) or ids[number] != record_id:
            raise DataError(f"record {record_id} has no anchor in its place (row {first + number}); {_REMEDY}")
    return pl.concat([records, anchors.select(ANCHOR_COLUMNS)], how="horizontal")


def _arrow(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def _codes(values: pl.Series, names: Sequence[str]) -> np.ndarray:
    return values.cast(pl.Enum(list(names))).to_physical().to_numpy()


def _joined(parts: list[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(parts).astype(kind) if parts else np.empty(0, dtype=kind)
