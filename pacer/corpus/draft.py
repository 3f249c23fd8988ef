"""The first pass over a corpus: every row read, cleaned and written to a draft table, in bounded memory.

The draft holds the records and, beside them, where each comes from (so that a later check can still name its row) and
whether its wording presupposes a previous report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.contexts import availability
from pacer.core.progress import Ticker
from pacer.corpus.assemble import Assembler
from pacer.corpus.ledger import Ledger
from pacer.corpus.rows import Examination, LeftOut, Notes, Problem, Row
from pacer.corpus.text.wording import compares_with_prior
from pacer.params import Corpus
from pacer.records.columns import TableWriter
from pacer.records.schemas import PRIOR_SCHEMA, RECORD_SCHEMA

#: What the draft holds besides the records.
DRAFT_SCHEMA: dict[str, pl.DataType] = RECORD_SCHEMA | {
    "file": pl.String(),
    "index": pl.Int64(),
    "rows": pl.Int32(),  # of the input that the examination is made of
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
                records.add(
                    record
                    | {
                        "file": row.place.file,
                        "index": row.place.index,
                        "rows": row.rows,
                        "compares": None if with_prior else compares,
                    }
                )
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
    priors.add(
        {
            "study_id": exam.study_id,
            "prior_study_id": prior.study_id,
            "gap_days": prior.gap_days,
            "rule": prior.rule,
            "tied": prior.tied,
            "passed_over": prior.passed_over,
        }
    )
