"""The first pass over a corpus: every row read, cleaned and written to a draft table, in bounded memory.

The draft holds the records and, beside them, where each comes from (so that a later check can still name its row) and
whether its wording presupposes a previous report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.config import Corpus
from pacer.core.contexts import availability
from pacer.core.io import atomic_path
from pacer.core.progress import Ticker
from pacer.corpus.assemble import Assembler
from pacer.corpus.columns import BATCH, TableWriter, batches
from pacer.corpus.ledger import Ledger
from pacer.corpus.records import PRIOR_SCHEMA, RECORD_SCHEMA
from pacer.corpus.rows import Examination, LeftOut, Notes, Place, Problem, Row
from pacer.corpus.wording import compares_with_prior

#: What the draft holds besides the records.
DRAFT_SCHEMA: dict[str, pl.DataType] = RECORD_SCHEMA | {
    "file": pl.String(),
    "index": pl.Int64(),
    "compares": pl.Boolean(),  # its target presupposes a previous report; null where one is given
}


@dataclass
class Draft:
    """What the first pass made of a corpus; rows are those of the input."""

    path: Path
    used: int = 0
    beyond_limit: int = 0
    _studies: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def admits(self, record: dict[str, Any], limit: int | None) -> bool:
        """Whether the record's study is among the first ``limit`` of its context and split."""
        if limit is None:
            return True
        studies = self._studies.setdefault((record["context"], record["split"]), set())
        if record["study_id"] in studies:
            return True
        if len(studies) >= limit:
            return False
        studies.add(record["study_id"])
        return True


def write_draft(
    rows: Iterator[Row], assembler: Assembler, config: Corpus, notes: Notes, ledger: Ledger, directory: Path
) -> Draft:
    """Write ``draft.parquet`` and ``priors.parquet`` below ``directory`` from what a reader gives.

    Every row ends in the draft, in the ledger, or is counted as beyond ``corpus.limit``.

    Raises:
        RuntimeError: the reader lost a row (its counts do not add up), which is a bug.
    """
    draft = Draft(directory / "draft.parquet")
    with (
        Ticker("rows", None) as ticker,
        TableWriter(draft.path, DRAFT_SCHEMA) as records,
        TableWriter(directory / "priors.parquet", PRIOR_SCHEMA) as priors,
    ):
        for row in rows:
            ticker.advance(row.rows)
            if not isinstance(row, Examination):
                ledger.add(row)
                continue
            made = assembler.records(row)
            if isinstance(made, Problem | LeftOut):
                ledger.add(made)
                continue
            admitted = [record for record in made if draft.admits(record, config.limit)]
            if not admitted:
                draft.beyond_limit += row.rows
                continue
            draft.used += row.rows
            compares = None
            for record in admitted:
                with_prior = availability(record["context"])[1]
                if not with_prior and compares is None:
                    compares = compares_with_prior(record["report_raw"])
                records.add(record | {"file": row.place.file, "index": row.place.index,
                                      "compares": None if with_prior else compares})
            _note_prior(row, admitted, priors)
    counted = draft.used + draft.beyond_limit + ledger.bad_rows + ledger.left_out_rows
    read = sum(notes.read.values())
    if counted != read:
        raise RuntimeError(f"{read} rows were read, but {counted} are accounted for: a reader lost rows")
    return draft


def _note_prior(exam: Examination, records: list[dict[str, Any]], priors: TableWriter) -> None:
    prior = exam.prior
    if prior is None or prior.study_id is None or all(record["prior_report"] is None for record in records):
        return
    priors.add({"study_id": exam.study_id, "prior_study_id": prior.study_id, "gap_days": prior.gap_days,
                "rule": prior.rule, "tied": prior.tied, "passed_over": prior.passed_over})


def write_kept(
    draft: Draft, repeated: set[int], problems: dict[str, str], images: tuple[str, str], strict: bool, ledger: Ledger,
    path: Path, about: Mapping[str, Any],
) -> dict[str, dict[str, dict[str, int]]]:
    """Write the draft's sound records to ``path``; what is dropped goes to the ledger.

    Args:
        repeated: row numbers of the draft whose id occurred before.
        problems: why an image cannot be used, by image id. images: names of the two image fields.
        strict: leave out targets that presuppose a previous report where none is given.
        about: what ``records.parquet`` says of how it was made.

    Returns:
        ``{context: {split: {records, comparing}}}`` of the contexts without a previous report, strict or not.
    """
    wording: dict[str, dict[str, dict[str, int]]] = {}
    first = 0
    with atomic_path(path) as temporary, TableWriter(temporary, RECORD_SCHEMA, about) as kept:
        for frame in batches(draft.path, size=BATCH):
            faults = _faults(frame, first, repeated, problems, images, strict)
            for place, fault, counted in faults.values():
                ledger.add(fault._replace(place=place), counted)
            first += frame.height
            sound = [number not in faults or isinstance(faults[number][1], LeftOut) for number in range(frame.height)]
            _count_wording(frame.filter(pl.Series(sound, dtype=pl.Boolean)), wording)
            kept.add_frame(frame.filter(pl.Series([n not in faults for n in range(frame.height)], dtype=pl.Boolean)))
    return wording


def _faults(
    frame: pl.DataFrame, first: int, repeated: set[int], problems: dict[str, str], images: tuple[str, str], strict: bool
) -> dict[int, tuple[Place, Problem | LeftOut, str | None]]:
    """What keeps rows of a batch out of the corpus, by row of the batch."""
    found: dict[int, tuple[Place, Problem | LeftOut, str | None]] = {}
    nowhere = Place("", "", 0)
    columns = frame.select("record_id", "frontal", "lateral", "compares", "file", "split", "index")
    for number, row in enumerate(columns.iter_rows()):
        record_id, frontal, lateral, compares, file, split, index = row
        fault: Problem | LeftOut | None = None
        counted = None
        if first + number in repeated:
            counted = "the record id occurs more than once"
            fault = Problem(nowhere, "id", f"the record id {record_id} occurs more than once", 0)
        elif problems and (frontal in problems or lateral in problems):
            name, image = (images[0], frontal) if frontal in problems else (images[1], lateral)
            counted = problems[image]
            fault = Problem(nowhere, name, f"image {image}: {counted}", 0)
        elif strict and compares:
            fault = LeftOut(nowhere, "it presupposes a previous report (corpus.strict)", 0)
        if fault is not None:
            found[number] = Place(file, split, index), fault, counted
    return found


def _count_wording(frame: pl.DataFrame, wording: dict[str, dict[str, dict[str, int]]]) -> None:
    counts = (
        frame.filter(pl.col("compares").is_not_null())
        .group_by("context", "split")
        .agg(pl.len(), pl.col("compares").sum())
    )
    for context, split, records, comparing in counts.sort("context", "split").iter_rows():
        entry = wording.setdefault(context, {}).setdefault(split, {"records": 0, "comparing": 0})
        entry["records"] += records
        entry["comparing"] += int(comparing)
