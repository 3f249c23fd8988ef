"""The audit of a corpus: size compared with the paper's, leaks, repeats, gaps to previous studies, unusual values.

Everything is computed from the finished tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import polars as pl

from pacer.data.radiographs import MISSING
from pacer.data.schemas import SPLITS

#: Scenario records of MIMIC-RG4 (paper, table of the appendix "Dataset Splits and Availability Settings").
PAPER_RECORDS: dict[str, dict[str, int]] = {
    "sn": {"train": 172_608, "val": 1_391, "test": 2_357},
    "sw": {"train": 112_776, "val": 937, "test": 2_026},
    "mn": {"train": 91_341, "val": 701, "test": 1_004},
    "mw": {"train": 47_686, "val": 371, "test": 828},
}

#: Maximum number of examples listed for an overlap; the count is always complete.
LISTED = 20


def describe_records(records: pl.DataFrame, contexts: Sequence[str]) -> dict[str, Any]:
    """Summarise the finished records."""
    clinical = records.group_by("context").agg(pl.col("indication", "history").count()).sort("context")
    with_list = records["emphasis"].count()
    return {
        "records": records.height,
        "contexts": count_records(records, contexts),
        "overlap": split_overlap(records),
        "repeated_texts": repeated_texts(records, contexts),
        "shared_images": shared_images(records),
        "clinical_context": {row.pop("context"): row for row in clinical.to_dicts()},
        "views": value_counts(records, "view"),
        "sections": value_counts(records, "sections"),
        "emphasis": {"records_with_list": with_list, "records_without_list": records.height - with_list},
    }


def count_records(records: pl.DataFrame, contexts: Sequence[str]) -> dict[str, dict[str, dict[str, int]]]:
    """Return ``{context: {split: {records, studies, subjects, paper}}}``, including splits without records."""
    groups = records.group_by("context", "split").agg(
        records=pl.len(), studies=pl.col("study_id").n_unique(), subjects=pl.col("subject_id").n_unique()
    )
    counts = {(row.pop("context"), row.pop("split")): row for row in groups.to_dicts()}
    none = {"records": 0, "studies": 0, "subjects": 0}
    return {c: {s: counts.get((c, s), none) | {"paper": PAPER_RECORDS[c][s]} for s in SPLITS} for c in contexts}


def split_overlap(records: pl.DataFrame) -> dict[str, dict[str, dict[str, Any]]]:
    """Find studies and subjects shared by two splits: ``{study|subject: {"train-val": {count, examples}, ...}}``."""
    overlap: dict[str, dict[str, dict[str, Any]]] = {}
    for name in ("study", "subject"):
        ids = {split: set(records.filter(split=split)[f"{name}_id"]) for split in SPLITS}
        overlap[name] = listed({f"{a}-{b}": sorted(ids[a] & ids[b]) for a, b in combinations(SPLITS, 2)})
    return overlap


def listed(by_splits: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Return the number of what two splits share, and examples: ``{"train-val": {count, examples}, ...}``."""
    return {splits: {"count": len(both), "examples": both[:LISTED]} for splits, both in by_splits.items()}


def repeated_texts(records: pl.DataFrame, contexts: Sequence[str]) -> dict[str, Any]:
    """Count repeated target reports.

    ``{"within": {context: {records, distinct, most_frequent}}, "known_from_train": {context: {split: records}}}``:
    the second counts val and test records whose whole report also occurs in the train split of the same context.
    """
    within: dict[str, dict[str, int]] = {}
    known: dict[str, dict[str, int]] = {}
    for context in contexts:
        part = records.filter(context=context)
        counts = part["report"].value_counts()["count"]
        most_frequent = max(counts, default=0)
        within[context] = {"records": part.height, "distinct": len(counts), "most_frequent": most_frequent}
        train = part.filter(split="train").select("report").unique()
        known[context] = {s: part.filter(split=s).join(train, on="report", how="semi").height for s in SPLITS[1:]}
    return {"within": within, "known_from_train": known}


def shared_images(records: pl.DataFrame) -> dict[str, int]:
    """Count the images (by path) that occur in records of more than one ``study``, ``subject`` and ``split``."""
    owners = {"study": "study_id", "subject": "subject_id", "split": "split"}
    counts = dict.fromkeys(owners, 0)
    for image in ("frontal", "lateral"):
        groups = records.drop_nulls(image).group_by(image).agg(pl.col(*owners.values()).n_unique() > 1)
        for name, column in owners.items():
            counts[name] += int(groups[column].sum())
    return counts


def value_counts(records: pl.DataFrame, column: str) -> dict[str, dict[str, int]]:
    """Count the values of a column: ``{context: {value: records}}``."""
    table: dict[str, dict[str, int]] = {}
    for context, value, count in records.group_by("context", column).len().sort("context", column).iter_rows():
        table.setdefault(context, {})[value] = count
    return table


def describe_priors(priors: pl.DataFrame, empty: int, keep_empty: bool) -> dict[str, Any]:
    """Summarise the choice of previous reports: gaps, rules, ties (``known`` is 0 if the format does not give it).

    Args:
        empty: number of studies whose previous report was empty after cleaning. keep_empty: whether they are used.
    """
    median, longest = priors.select(
        median=pl.col("gap_days").median().round(2), longest=pl.col("gap_days").max().round(2)
    ).row(0)
    return {
        "known": priors.height,
        "tied": int(priors["tied"].sum()),
        "passed_over": int((priors["passed_over"] > 0).sum()),
        "rules": dict(sorted(priors["rule"].value_counts().iter_rows())),
        "median_gap_days": median,
        "longest_gap_days": longest,
        "empty": 0 if keep_empty else empty,
        "empty_kept": empty if keep_empty else 0,
    }


def describe_images(images: pl.DataFrame, unusable: pl.DataFrame) -> dict[str, Any]:
    """Return number, bytes and pixel sizes of the images in use, and the number of unusable images."""
    sizes = images["width"], images["height"]
    missing = unusable.filter(problem=MISSING).height
    return {
        "count": images.height,
        "bytes": images["bytes"].sum(),
        "smallest": [size.min() for size in sizes],
        "largest": [size.max() for size in sizes],
        "missing": missing,
        "unreadable": unusable.height - missing,
    }
