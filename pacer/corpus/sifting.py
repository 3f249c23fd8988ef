"""The second pass over a corpus: the draft's sound records are kept, and what is dropped is listed.

A row of the input can give records in several contexts. It counts as bad or left out when its last record falls, and
is listed once per reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pacer.core.io import atomic_path
from pacer.corpus.draft import Draft
from pacer.corpus.ledger import Ledger
from pacer.corpus.rows import LeftOut, Place, Problem, shown_path
from pacer.records.columns import BATCH, TableWriter, batches, distinct
from pacer.records.schemas import PRIOR_SCHEMA, RECORD_SCHEMA

_COLUMNS = ("record_id", "frontal", "lateral", "compares", "file", "split", "index", "rows")
_NOWHERE = Place("", "", 0)


@dataclass(frozen=True)
class Sieve:
    """What keeps a record of the draft out of the corpus.

    Attributes:
        repeated: row numbers of the draft whose record id occurred before.
        problems: why an image cannot be used, by image id.
        folder: where the images were looked for.
        fields: names of the two image fields, for messages.
        strict: leave out targets that presuppose a previous report where none is given.
    """

    repeated: set[int]
    problems: Mapping[str, str]
    folder: Path
    fields: tuple[str, str]
    strict: bool

    def fault(
        self, number: int, record_id: str, frontal: str, lateral: str | None, compares: bool | None
    ) -> tuple[Problem | LeftOut, str | None] | None:
        """Why row ``number`` of the draft is dropped, and the reason to count it under; None when it is kept."""
        if number in self.repeated:
            counted = "the record id occurs more than once"
            return Problem(_NOWHERE, "id", f"the record id {record_id} occurs more than once"), counted
        for name, image in zip(self.fields, (frontal, lateral)):
            if image is not None and image in self.problems:
                counted = self.problems[image]
                return Problem(_NOWHERE, name, f"image {shown_path(image)} below {self.folder}: {counted}"), counted
        if self.strict and compares:
            return LeftOut(_NOWHERE, "it presupposes a previous report (corpus.strict)"), None
        return None


@dataclass
class _InputRow:
    """The records of one row of the input, as far as they have been met."""

    place: Place
    rows: int
    kept: int = 0
    faults: dict[str, tuple[Problem | LeftOut, str | None]] = field(default_factory=dict)

    def settle(self, draft: Draft, ledger: Ledger) -> None:
        """List what fell; when nothing is left, the row was not used after all."""
        rows = 0 if self.kept else self.rows
        if self.faults:
            draft.used -= rows
        for fault, counted in self.faults.values():
            ledger.add(fault._replace(place=self.place, rows=rows), counted)
            rows = 0


def write_kept(
    draft: Draft, sieve: Sieve, ledger: Ledger, directory: Path, about: Mapping[str, Any]
) -> dict[str, dict[str, dict[str, int]]]:
    """Write the draft's sound records to ``directory/records.parquet``, and cut ``priors.parquet`` to their studies.

    Args:
        draft: its count of used rows is corrected.
        about: what ``records.parquet`` says of how it was made.

    Returns:
        ``{context: {split: {records, comparing}}}`` of the contexts without a previous report, ``strict`` or not.
    """
    wording: dict[str, dict[str, dict[str, int]]] = {}
    with_prior = [np.empty(0, dtype=np.uint64)]
    current = _InputRow(_NOWHERE, 0)
    number = 0
    with (
        atomic_path(directory / "records.parquet") as temporary,
        TableWriter(temporary, RECORD_SCHEMA, about) as records,
    ):
        for frame in batches(draft.path, size=BATCH):
            kept, counted = [], []
            for record_id, frontal, lateral, compares, file, split, index, rows in frame.select(_COLUMNS).iter_rows():
                if current.place != (file, split, index):
                    current.settle(draft, ledger)
                    current = _InputRow(Place(file, split, index), rows)
                found = sieve.fault(number, record_id, frontal, lateral, compares)
                if found is None:
                    current.kept += 1
                else:
                    current.faults.setdefault(found[0].reason, found)
                kept.append(found is None)
                counted.append(found is None or isinstance(found[0], LeftOut))
                number += 1
            _count_wording(frame.filter(pl.Series(counted, dtype=pl.Boolean)), wording)
            sound = frame.filter(pl.Series(kept, dtype=pl.Boolean))
            records.add_frame(sound)
            with_prior.append(sound.filter(pl.col("prior_report").is_not_null())["study_id"].hash().to_numpy())
        current.settle(draft, ledger)
    _keep_priors(directory / "priors.parquet", distinct(np.concatenate(with_prior)))
    return wording


def _keep_priors(path: Path, studies: np.ndarray) -> None:
    """Cut the table of priors to these studies (hashes of their ids)."""
    with atomic_path(path) as temporary, TableWriter(temporary, PRIOR_SCHEMA) as priors:
        for frame in batches(path):
            priors.add_frame(frame.filter(pl.Series(np.isin(frame["study_id"].hash().to_numpy(), studies))))


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
