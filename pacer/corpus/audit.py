"""The audit of a corpus: its size beside the paper's, leaks between splits, and everything that was left out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import polars as pl

from pacer.corpus.source import SPLITS

#: Scenario records of MIMIC-RG4 (paper, table of the appendix "Dataset Splits and Availability Settings").
PAPER_RECORDS: dict[str, dict[str, int]] = {
    "sn": {"train": 172_608, "val": 1_391, "test": 2_357},
    "sw": {"train": 112_776, "val": 937, "test": 2_026},
    "mn": {"train": 91_341, "val": 701, "test": 1_004},
    "mw": {"train": 47_686, "val": 371, "test": 828},
}

#: Entries of an emphasis list that upstream's training reads, BOS included.
EMPHASIS_POSITIONS = 100

#: Names listed for an overlap; the count is always complete.
_LISTED = 20


def count_records(records: pl.DataFrame, contexts: list[str]) -> dict[str, dict[str, dict[str, int]]]:
    """``{context: {split: {records, studies, subjects, paper}}}``, splits without records included."""
    counted = records.group_by("context", "split").agg(
        pl.len().alias("records"), pl.col("study_id").n_unique().alias("studies"),
        pl.col("subject_id").n_unique().alias("subjects"),
    )  # fmt: skip
    table = {(row["context"], row["split"]): row for row in counted.iter_rows(named=True)}
    return {
        context: {
            split: {
                **{name: table.get((context, split), {}).get(name, 0) for name in ("records", "studies", "subjects")},
                "paper": PAPER_RECORDS[context][split],
            }
            for split in SPLITS
        }
        for context in contexts
    }


def split_overlap(records: pl.DataFrame) -> dict[str, dict[str, dict[str, Any]]]:
    """Studies and subjects that occur in two splits: ``{study|subject: {"train-val": {count, examples}, ...}}``."""
    overlap: dict[str, dict[str, dict[str, Any]]] = {}
    for name in ("study", "subject"):
        ids = {split: set(records.filter(pl.col("split") == split)[f"{name}_id"]) for split in SPLITS}
        overlap[name] = {}
        for first, second in combinations(SPLITS, 2):
            shared = sorted(ids[first] & ids[second])
            overlap[name][f"{first}-{second}"] = {"count": len(shared), "examples": shared[:_LISTED]}
    return overlap


def emphasis_summary(records: pl.DataFrame) -> dict[str, Any]:
    """How many records have emphasised tokens, how long the lists are, and what is unusual about them."""
    present = records.filter(pl.col("emphasis").is_not_null())
    lengths = present["emphasis"].list.len()
    entries = present["emphasis"].explode().drop_nulls()
    return {
        "records_with_list": present.height,
        "records_without_list": records.height - present.height,
        "shortest": lengths.min() or 0,
        "longest": lengths.max() or 0,
        "mean_length": round(int(lengths.sum()) / max(present.height, 1), 2),
        f"longer_than_{EMPHASIS_POSITIONS}": int((lengths > EMPHASIS_POSITIONS).sum()),
        "emphasised_entries": int((entries > 0).sum()),
        "entries_outside_0_1": int(((entries != 0) & (entries != 1)).sum()),
    }


def value_counts(records: pl.DataFrame, column: str) -> dict[str, dict[str, int]]:
    """``{context: {value: records}}`` of a column."""
    counts: dict[str, dict[str, int]] = {}
    grouped = records.group_by("context", column).len().sort("context", column)
    for context, value, count in grouped.iter_rows():
        counts.setdefault(context, {})[value] = count
    return counts


def image_summary(images: pl.DataFrame, missing: int, unreadable: int) -> dict[str, Any]:
    """Number, bytes and pixel sizes of the images in use, and how many were missing or unreadable."""

    def number(value: Any) -> int:
        return int(value or 0)

    return {
        "count": images.height,
        "bytes": number(images["bytes"].sum()),
        "missing": missing,
        "unreadable": unreadable,
        "smallest": [number(images["width"].min()), number(images["height"].min())],
        "largest": [number(images["width"].max()), number(images["height"].max())],
    }


def sum_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """A counter as a plain dictionary, most frequent first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
