"""Use of the previous report and of the lateral view by finding, beside reports that need no training.

All findings are those that the rules read as affirmed. A finding is *persisting* if both the previous report and the
reference affirm it, *gone* if only the previous report does, and *new* if only the reference does. It is *only on the
lateral view* if the reference affirms it, and the reference of the same study for the frontal view does not; a corpus
that gives all records of a study one target has none. The controls ``no_prior`` and ``no_lateral`` are the reports for
the same records without the source.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import numpy as np
import polars as pl

from pacer.commitments.rules.extract import extract_anchor
from pacer.data.findings import FINDINGS
from pacer.metrics.clinical import by_record, label_counts
from pacer.metrics.predictions import with_reference_anchors

#: Columns of affirmed findings, and the column of the texts in which the rules read them.
_READ_IN = {
    "prior_positive": "prior_report",
    "no_prior_positive": "no_prior_hypothesis",
    "no_lateral_positive": "no_lateral_hypothesis",
}


#: Kind of finding -> the column it is told by beside the reference, and whether a finding is of this kind.
KINDS = MappingProxyType[str, tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]](
    {
        "persisting": ("prior_positive", lambda earlier, now: earlier & now),
        "gone": ("prior_positive", lambda earlier, now: earlier & ~now),
        "new": ("prior_positive", lambda earlier, now: now & ~earlier),
        "lateral_only": ("frontal_positive", lambda frontal, both: both & ~frontal),
    }
)


def with_frontal_references(cases: pl.DataFrame, records: pl.DataFrame, anchors: Path | None) -> pl.DataFrame:
    """Add ``frontal_positive`` to cases with a lateral view: what the reference of the same study affirms in the
    context without it, from all ``records`` and their ``anchors`` (None: read by the rules)."""
    key = ["study_id", "context"]
    frontal = records.filter(pl.col("context").str.starts_with("s")).with_columns(
        pl.col("context").str.replace("s", "m", literal=True)
    )
    frontal = frontal.join(cases, on=key, how="semi").unique(key, keep="first", maintain_order=True)
    read = with_reference_anchors(frontal, anchors).select(*key, frontal_positive="reference_positive")
    return cases.join(read, on=key, how="left", maintain_order="left")


def source_columns(cases: pl.DataFrame) -> list[pl.Series]:
    """Return what the rules read in the previous reports and in the reports of controls, for the texts that the cases
    have."""
    there = {name: cases[text] for name, text in _READ_IN.items() if text in cases.columns and cases[text].count()}
    return [
        pl.Series(name, [None if text is None else extract_anchor(text).positive for text in texts], pl.List(pl.String))
        for name, texts in there.items()
    ]


def stated_rows(cases: pl.DataFrame, kind: str, reports: str = "report_positive") -> np.ndarray:
    """Return how many findings of a kind the reports affirm, and how many there are, by case, ``[n, 2]``; 0 where it is
    not known."""
    told_by, is_of_kind = KINDS[kind]
    known, told, reference, report = _read(cases, told_by, "reference_positive", reports)
    there = is_of_kind(told, reference) & known
    return np.stack([(there & report).sum(axis=1), there.sum(axis=1)], axis=1).astype(float)


def united_rows(cases: pl.DataFrame, *reports: str) -> np.ndarray:
    """Return hits, findings of reports taken together, and findings of the reference, by case with a previous report,
    ``[n, 3]``; 0 where one of the reports is not known."""
    known, _, reference, *columns = _read(cases, "prior_positive", "reference_positive", *reports)
    return by_record(label_counts(reference, np.logical_or.reduce(columns))) * known


def _read(cases: pl.DataFrame, *columns: str) -> list[np.ndarray]:
    """Return whether a case has a value in all columns, Boolean ``[n, 1]``, and the findings in each, ``[n, 13]``; a
    column that the cases lack has no values."""
    lists = cases.with_columns(pl.lit(None, pl.List(pl.String)).alias(name) for name in {*columns} - {*cases.columns})
    known = lists.select(pl.all_horizontal(pl.col(columns).is_not_null()))
    there = (
        [pl.col(name).list.contains(finding).fill_null(False).alias(finding) for finding in FINDINGS]
        for name in columns
    )
    return [known.to_numpy(), *(lists.select(one).to_numpy() for one in there)]
