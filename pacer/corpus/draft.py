"""The two passes over a corpus, both in bounded memory.

The first reads and cleans every row and writes its records to a draft. When it is known which ids repeat and which
images can be used, the second keeps the draft's sound records and lists the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.io import atomic_path
from pacer.core.progress import Ticker
from pacer.corpus.assemble import DRAFT_SCHEMA, Assembler
from pacer.corpus.ledger import Ledger
from pacer.corpus.rows import Examination, LeftOut, Place, Problem, Row, shown_path
from pacer.records.columns import BATCH, TableWriter, batches
from pacer.records.schemas import PRIOR_SCHEMA, RECORD_SCHEMA

_CHECKED = ("context", "record_id", "frontal", "lateral", "compares", "left_out", "file", "split", "index", "rows")
_NOWHERE = Place("", "", 0)

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


@dataclass(frozen=True)
class Sieve:
    """What keeps a record of the draft out of the corpus.

    Attributes:
        repeated: row numbers of the draft whose record id occurred before.
        unusable: why an image cannot be used, by image id.
        folder: where the images were looked for.
        fields: names of the two image fields, for messages.
    """

    repeated: set[int]
    unusable: Mapping[str, str]
    folder: Path
    fields: tuple[str, str]

    def fault(
        self, number: int, record_id: str, frontal: str, lateral: str | None, left_out: str | None
    ) -> Problem | LeftOut | None:
        """Why row ``number`` of the draft is dropped; None when it is kept."""
        if number in self.repeated:
            counted = "the record id occurs more than once"
            return Problem(_NOWHERE, "id", f"the record id {record_id} occurs more than once", counted=counted)
        for name, image in zip(self.fields, (frontal, lateral)):
            if image is not None and image in self.unusable:
                counted = self.unusable[image]
                reason = f"image {shown_path(image)} below {self.folder}: {counted}"
                return Problem(_NOWHERE, name, reason, counted=counted)
        return None if left_out is None else LeftOut(_NOWHERE, left_out)


def keep_sound(draft: Path, sieve: Sieve, ledger: Ledger, directory: Path, about: Mapping[str, Any]) -> Wording:
    """Write the draft's sound records to ``records.parquet`` and what is known of their priors to ``priors.parquet``.

    Args:
        directory: where the two tables go. about: what ``records.parquet`` says of how it was made.

    Returns:
        How many targets without a previous report presuppose one, those that are left out or stripped included.
    """
    kept, wording = _sift(draft, sieve, ledger)
    first, last_study = 0, None
    with (
        atomic_path(directory / "records.parquet") as temporary,
        TableWriter(temporary, RECORD_SCHEMA, about) as records,
        TableWriter(directory / "priors.parquet", PRIOR_SCHEMA) as priors,
    ):
        for frame in batches(draft, size=BATCH):
            sound = frame.filter(pl.Series(kept[first : first + frame.height], dtype=pl.UInt8) == 1)
            first += frame.height
            records.add_frame(sound)
            known = sound.filter(pl.col("prior_report").is_not_null(), pl.col("prior_study_id").is_not_null())
            if known.height:
                # the records of a study follow one another; those of the last one may go on in the next batch
                once = known.unique("study_id", keep="first", maintain_order=True)
                priors.add_frame(once.filter(pl.col("study_id").ne_missing(last_study)))
                last_study = known["study_id"][-1]
    return wording


def _sift(draft: Path, sieve: Sieve, ledger: Ledger) -> tuple[bytearray, Wording]:
    """Which records of the draft are kept, 1 or 0 for each, and the wording of their targets.

    A row of the input can give records in several contexts. It counts as bad or left out when its last record falls,
    and is listed once per reason.
    """
    kept = bytearray()
    wording: Wording = {}
    numbered = enumerate(row for frame in batches(draft, _CHECKED) for row in frame.select(_CHECKED).iter_rows())
    for (file, split, index, rows), records in groupby(numbered, key=lambda record: record[1][6:]):
        faults: dict[str, Problem | LeftOut] = {}
        sound = []
        for number, (context, record_id, frontal, lateral, compares, left_out, *_) in records:
            fault = sieve.fault(number, record_id, frontal, lateral, left_out)
            sound.append(fault is None)
            if fault is not None:
                faults.setdefault(fault.reason, fault)
            if compares is not None and not isinstance(fault, Problem):
                entry = wording.setdefault(context, {}).setdefault(split, {"records": 0, "comparing": 0})
                entry["records"] += 1
                entry["comparing"] += compares
        kept += bytes(sound)
        lost = 0 if any(sound) else rows
        ledger.rows["used"] -= lost
        for fault in faults.values():
            ledger.add(fault._replace(place=Place(file, split, index), rows=lost))
            lost = 0
    return kept, {context: dict(sorted(splits.items())) for context, splits in sorted(wording.items())}
