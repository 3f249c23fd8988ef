"""From examinations to records: a draft of all that the rows of the input give, and what of it is sound.

Whether ids repeat and images can be used is known only when every row has been read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.progress import Ticker
from pacer.data.assemble import DRAFT_SCHEMA, Assembler
from pacer.data.problem_list import ProblemList
from pacer.data.rows import Examination, LeftOut, Place, Problem, Row, shown_path

#: Records that are held as dictionaries at a time: a table of them is far smaller.
_BATCH = 4096
_NOWHERE = Place("", "", 0)

#: ``{context: {split: {records, comparing}}}``
Wording = dict[str, dict[str, dict[str, int]]]


def make_draft(rows: Iterator[Row], assembler: Assembler, problems: ProblemList) -> pl.DataFrame:
    """The records that a reader's rows give; every row ends there, in the problem list, or beyond the limit."""
    frames = [pl.DataFrame(schema=DRAFT_SCHEMA)]
    records: list[dict[str, Any]] = []
    with Ticker("rows", None) as ticker:
        for row in rows:
            ticker.advance(row.rows)
            made = assembler.records(row) if isinstance(row, Examination) else row
            if isinstance(made, Problem | LeftOut):
                problems.add(made)
            elif made:
                problems.rows["used"] += row.rows
                records += made
            else:
                problems.rows["beyond_limit"] += row.rows
            if len(records) >= _BATCH:
                frames.append(pl.DataFrame(records, DRAFT_SCHEMA))
                records = []
    return pl.concat([*frames, pl.DataFrame(records, DRAFT_SCHEMA)])


def keep_sound(
    draft: pl.DataFrame, unusable: Mapping[str, str], folder: Path, fields: tuple[str, str], problems: ProblemList
) -> tuple[pl.DataFrame, Wording]:
    """The sound records of a draft, and how many targets without a previous report presuppose one.

    A row of the input can give records in several contexts. It counts as bad or left out when its last record falls,
    and is listed once per reason. Of targets without a previous report those that are left out or stripped count too.

    Args:
        unusable: why an image cannot be used, by image id. folder: where the images were looked for.
        fields: names of the two image fields, for messages.
    """
    kept: list[bool] = []
    wording: Wording = {}
    draft = draft.with_columns(repeated=~pl.col("record_id").is_first_distinct())
    rows = draft.drop("report", "report_raw", "prior_report", "emphasis", "emphasis_text").iter_rows(named=True)
    for place, records in groupby(rows, key=lambda row: (row["file"], row["split"], row["index"], row["rows"])):
        file, split, index, number = place
        faults: dict[str, Problem | LeftOut] = {}
        sound = []
        for record in records:
            fault = _fault(record, unusable, folder, fields)
            sound.append(fault is None)
            if fault is not None:
                faults.setdefault(fault.reason, fault)
            if record["compares"] is not None and not isinstance(fault, Problem):
                entry = wording.setdefault(record["context"], {}).setdefault(split, {"records": 0, "comparing": 0})
                entry["records"] += 1
                entry["comparing"] += record["compares"]
        kept += sound
        lost = 0 if any(sound) else number
        problems.rows["used"] -= lost
        for fault in faults.values():
            problems.add(fault._replace(place=Place(file, split, index), rows=lost))
            lost = 0
    counted = {context: dict(sorted(splits.items())) for context, splits in sorted(wording.items())}
    return draft.filter(pl.Series(kept, dtype=pl.Boolean)), counted


def _fault(
    record: Mapping[str, Any], unusable: Mapping[str, str], folder: Path, fields: tuple[str, str]
) -> Problem | LeftOut | None:
    """Why a record of the draft is dropped; None when it is kept."""
    if record["repeated"]:
        counted = "the record id occurs more than once"
        return Problem(_NOWHERE, "id", f"the record id {record['record_id']} occurs more than once", counted=counted)
    for field, image in zip(fields, (record["frontal"], record["lateral"]), strict=True):
        if image is not None and image in unusable:
            reason = f"image {shown_path(image)} below {folder}: {unusable[image]}"
            return Problem(_NOWHERE, field, reason, counted=unusable[image])
    return None if record["left_out"] is None else LeftOut(_NOWHERE, record["left_out"])
