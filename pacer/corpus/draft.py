"""The two passes over a corpus.

The first reads and cleans every row and writes its records to a draft. When it is known which ids repeat and which
images can be used, the second keeps the draft's sound records and lists the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.progress import Ticker
from pacer.corpus.assemble import DRAFT_SCHEMA, Assembler
from pacer.corpus.ledger import Ledger
from pacer.corpus.rows import Examination, LeftOut, Place, Problem, Row, shown_path
from pacer.records.columns import BATCH, TableWriter
from pacer.records.schemas import PRIOR_SCHEMA, RECORD_SCHEMA

#: What a record of the draft says of the row of the input that it was made from.
_ROW = ("file", "split", "index", "rows")
_CHECKED = ("context", "record_id", "frontal", "lateral", "compares", "left_out", *_ROW)

#: ``{context: {split: {records, comparing}}}``
Wording = dict[str, dict[str, dict[str, int]]]


def write_draft(rows: Iterator[Row], assembler: Assembler, ledger: Ledger, draft: Path) -> None:
    """Write what a reader gives to ``draft``; every row ends there, in the ledger's table, or beyond the limit."""
    with Ticker("rows", None) as ticker, TableWriter(draft, DRAFT_SCHEMA) as records:
        for row in rows:
            ticker.advance(row.rows)
            made = assembler.records(row) if isinstance(row, Examination) else row
            if isinstance(made, Problem | LeftOut):
                ledger.add(made)
            elif made:
                ledger.rows["used"] += row.rows
                for record in made:
                    records.add(record)
            else:
                ledger.rows["beyond_limit"] += row.rows


def sift(
    draft: pl.DataFrame, unusable: Mapping[str, str], folder: Path, fields: tuple[str, str], ledger: Ledger
) -> tuple[pl.Series, Wording]:
    """Which records of the draft are kept, and how many targets without a previous report presuppose one, those that
    are left out or stripped included.

    A row of the input can give records in several contexts. It counts as bad or left out when its last record falls,
    and is listed once per reason.

    Args:
        unusable: why an image cannot be used, by image id. folder: where the images were looked for. fields: names of
            the two image fields, for messages.
    """
    kept: list[bool] = []
    wording: Wording = {}
    checked = draft.select(*_CHECKED, repeated=~pl.col("record_id").is_first_distinct())

    def fault_of(record: dict[str, Any], place: Place) -> Problem | LeftOut | None:
        if record["repeated"]:
            reason = f"the record id {record['record_id']} occurs more than once"
            return Problem(place, "id", reason, counted="the record id occurs more than once")
        for field, image in zip(fields, (record["frontal"], record["lateral"])):
            if image is not None and image in unusable:
                reason = f"image {shown_path(image)} below {folder}: {unusable[image]}"
                return Problem(place, field, reason, counted=unusable[image])
        return None if record["left_out"] is None else LeftOut(place, record["left_out"])

    for (file, split, index, rows), records in groupby(checked.iter_rows(named=True), key=itemgetter(*_ROW)):
        faults: dict[str, Problem | LeftOut] = {}
        sound = []
        for record in records:
            fault = fault_of(record, Place(file, split, index))
            sound.append(fault is None)
            if fault is not None:
                faults.setdefault(fault.reason, fault)
            if record["compares"] is not None and not isinstance(fault, Problem):
                entry = wording.setdefault(record["context"], {}).setdefault(split, {"records": 0, "comparing": 0})
                entry["records"] += 1
                entry["comparing"] += record["compares"]
        kept += sound
        lost = 0 if any(sound) else rows
        ledger.rows["used"] -= lost
        for fault in faults.values():
            ledger.add(fault._replace(rows=lost))
            lost = 0
    by_context = {context: dict(sorted(splits.items())) for context, splits in sorted(wording.items())}
    return pl.Series(kept, dtype=pl.Boolean), by_context


def write_sound(draft: pl.DataFrame, kept: pl.Series, path: Path, about: Mapping[str, Any]) -> pl.DataFrame:
    """Write the ``kept`` records of the draft as ``records.parquet``, and return them.

    Args:
        about: what the file says of how it was made.
    """
    with TableWriter(path, RECORD_SCHEMA, about) as records:
        for part in draft.with_columns(kept=kept).iter_slices(BATCH):
            records.add_frame(part.filter("kept"))
    return draft.filter(kept)


def priors_of(records: pl.DataFrame) -> pl.DataFrame:
    """What is known of the previous studies, a row for every study with one."""
    known = records.filter(pl.col("prior_report").is_not_null(), pl.col("prior_study_id").is_not_null())
    return known.unique("study_id", keep="first", maintain_order=True).select(list(PRIOR_SCHEMA))
