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
)
EMPHASIS_COLUMNS = ("emphasis",)
ANCHOR_COLUMNS = ("positive", "negative", "uncertain")

#: Rows of one block of the mapped file.
_BLOCK = 4096


class RecordTable:
    """Rows of records, their emphasis (and their commitments), by number.

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
        """Tables that are in memory already; ``records`` with their emphasis, ``anchors`` in the same order.

        Raises:
            DataError: a record has no anchor in its place.
        """
        joined = _join(records.select(COLUMNS), records, "emphasis", EMPHASIS_COLUMNS, 0)
        if anchors is not None:
            joined = _join(joined, anchors, "anchors", ANCHOR_COLUMNS, 0)
        return cls(_arrow(joined).to_batches(max_chunksize=_BLOCK))

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


def write_record_table(
    records: Path, emphasis: Path, anchors: Path | None, contexts: Sequence[str], path: Path
) -> None:
    """Write the mapped form of ``records.parquet`` (rows of ``contexts``) and, beside each row, its emphasis and its
    commitment.

    Args:
        emphasis: ``emphasis.parquet``. anchors: ``anchors.parquet``, or None. Both have one row per record in the same
            order.

    Raises:
        DataError: a record has no row in its place of one of the two.
    """
    beside = [("emphasis", EMPHASIS_COLUMNS, batches(emphasis, ["record_id", *EMPHASIS_COLUMNS], _BLOCK))]
    if anchors is not None:
        beside.append(("anchors", ANCHOR_COLUMNS, batches(anchors, ["record_id", *ANCHOR_COLUMNS], _BLOCK)))
    with atomic_path(path) as temporary, ExitStack() as stack:
        writer, first = None, 0
        for frame in batches(records, COLUMNS, _BLOCK):
            joined = frame
            for stage, columns, frames in beside:
                joined = _join(joined, next(frames, pl.DataFrame()), stage, columns, first)
            first += frame.height
            table = _arrow(joined.filter(pl.col("context").is_in(list(contexts))))
            writer = writer or stack.enter_context(pa.ipc.new_file(temporary, table.schema))
            writer.write_table(table.combine_chunks())
        if writer is None:
            raise DataError(f"{records} holds no record")
        for stage, _, frames in beside:
            if next(frames, None) is not None:
                raise _displaced(f"there are rows beyond those of the records (row {first})", stage)


def _join(records: pl.DataFrame, other: pl.DataFrame, stage: str, columns: Sequence[str], first: int) -> pl.DataFrame:
    """``records`` with ``columns`` of the table that ``stage`` made of them; ``first``: number of the first row."""
    ids = other["record_id"] if other.width else pl.Series("record_id", [], dtype=pl.String)
    if len(ids) > records.height:
        raise _displaced(f"there are rows beyond those of the records (row {first + records.height})", stage)
    for number, record_id in enumerate(records["record_id"]):
        if number >= len(ids) or ids[number] != record_id:
            raise _displaced(f"record {record_id} has no row in its place (row {first + number})", stage)
    return pl.concat([records, other.select(columns)], how="horizontal")


def _displaced(problem: str, stage: str) -> DataError:
    return DataError(f"{stage}: {problem}; run the stage {stage} on these records")


def _arrow(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def _codes(values: pl.Series, names: Sequence[str]) -> np.ndarray:
    return values.cast(pl.Enum(list(names))).to_physical().to_numpy()


def _joined(parts: list[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(parts).astype(kind) if parts else np.empty(0, dtype=kind)
