"""The records of a phase, read where they lie: an uncompressed Arrow file that the process maps instead of loading.

A row is decoded when its batch is made. What stays resident is one small number per record and column that the order
of training needs; the texts are file pages, which all processes of a machine share and the system may drop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import atomic_path
from pacer.data.columns import batches
from pacer.data.schemas import SPLITS

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

    def __init__(self, table: pa.Table):
        self.table = table
        self.context, self.split = self._codes("context", CONTEXTS), self._codes("split", SPLITS)

    @classmethod
    def of(cls, records: pl.DataFrame, anchors: pl.DataFrame | None = None) -> RecordTable:
        """Tables that are in memory already; ``records`` with their emphasis, ``anchors`` in the same order.

        Raises:
            DataError: a record has no anchor in its place.
        """
        beside = {"emphasis": records.select("record_id", *EMPHASIS_COLUMNS)}
        if anchors is not None:
            beside["anchors"] = anchors.select("record_id", *ANCHOR_COLUMNS)
        return cls(_arrow(_joined(records.select(COLUMNS), beside, 0)))

    @classmethod
    def map(cls, path: Path) -> RecordTable:
        """A file that :func:`write_record_table` wrote, mapped into memory."""
        return cls(pa.ipc.open_file(pa.memory_map(str(path))).read_all())

    def __len__(self) -> int:
        return self.table.num_rows

    @property
    def labelled(self) -> bool:
        """Whether the rows hold commitments."""
        return ANCHOR_COLUMNS[0] in self.table.schema.names

    def row(self, number: int) -> dict[str, Any]:
        """All columns of one record."""
        return self.table.slice(number, 1).to_pylist()[0]

    def record_id(self, number: int) -> str:
        """The id of one record."""
        return self.table["record_id"][number].as_py()

    def in_blocks(self) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """All records in order: the number of the first row of a block, and the block's rows."""
        for first in range(0, len(self), _BLOCK):
            yield first, self.table.slice(first, _BLOCK).to_pylist()

    def rows(self, split: str, contexts: Sequence[str]) -> dict[str, np.ndarray]:
        """Row numbers of a split per context, int32, in the order of ``contexts``."""
        inside = self.split == SPLITS.index(split)
        return {c: np.flatnonzero(inside & (self.context == CONTEXTS.index(c))).astype(np.int32) for c in contexts}

    def _codes(self, column: str, names: Sequence[str]) -> np.ndarray:
        values = pl.Series(column, self.table[column]).cast(pl.Enum(list(names)))
        return values.to_physical().to_numpy().astype(np.uint8)


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
    if pl.scan_parquet(records).select(pl.len()).collect().item() == 0:
        raise DataError(f"{records} holds no record")
    beside = {"emphasis": batches(emphasis, ["record_id", *EMPHASIS_COLUMNS], _BLOCK)}
    if anchors is not None:
        beside["anchors"] = batches(anchors, ["record_id", *ANCHOR_COLUMNS], _BLOCK)
    none = pl.DataFrame(schema={"record_id": pl.String})
    with atomic_path(path) as temporary, ExitStack() as stack:
        writer, first = None, 0
        for frame, *others in zip_longest(batches(records, COLUMNS, _BLOCK), *beside.values(), fillvalue=none):
            joined = _joined(frame, dict(zip(beside, others, strict=True)), first)
            first += joined.height
            table = _arrow(joined.filter(pl.col("context").is_in(list(contexts))))
            writer = writer or stack.enter_context(pa.ipc.new_file(temporary, table.schema))
            writer.write_table(table.combine_chunks())


def _joined(records: pl.DataFrame, beside: Mapping[str, pl.DataFrame], first: int) -> pl.DataFrame:
    """``records`` with the columns of the tables that other stages made of them; ``first``: number of the first row.

    Raises:
        DataError: the rows of a table are not of these records, in this order.
    """
    for stage, other in beside.items():
        pairs = zip_longest(records["record_id"], other["record_id"])
        for number, (record_id, found) in enumerate(pairs, first):
            if record_id is None:
                problem = f"there are rows beyond those of the records (row {number})"
            elif record_id != found:
                problem = f"record {record_id} has no row in its place (row {number})"
            else:
                continue
            raise DataError(f"{stage}: {problem}; run the stage {stage} on these records")
    return pl.concat([records, *(other.drop("record_id") for other in beside.values())], how="horizontal")


def _arrow(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
