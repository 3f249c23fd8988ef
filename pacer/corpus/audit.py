"""The audit of a corpus: its size beside the paper's, leaks and repeats, gaps to previous studies, odd values.

Everything is computed from the finished tables, a batch or a column at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pacer.core.contexts import CONTEXTS
from pacer.records.columns import batches, codes, distinct, hashes, texts
from pacer.records.schemas import EMPHASIS_POSITIONS, SPLITS

#: Scenario records of MIMIC-RG4 (paper, table of the appendix "Dataset Splits and Availability Settings").
PAPER_RECORDS: dict[str, dict[str, int]] = {
    "sn": {"train": 172_608, "val": 1_391, "test": 2_357},
    "sw": {"train": 112_776, "val": 937, "test": 2_026},
    "mn": {"train": 91_341, "val": 701, "test": 1_004},
    "mw": {"train": 47_686, "val": 371, "test": 828},
}

#: Upper ends of the classes that previous studies' gaps are counted in, in days.
GAP_DAYS = (1, 7, 30, 90, 365, 1825)

#: Names listed for an overlap; the count is always complete.
_LISTED = 20
#: Entries of an emphasis list per class of the histogram of lengths.
_LENGTH_STEP = 10


class Ids:
    """Contexts, splits and hashed ids of the records, as arrays."""

    def __init__(self, path: Path):
        self.path = path
        self.context = codes(path, "context", CONTEXTS)
        self.split = codes(path, "split", SPLITS)

    def rows(self, context: str | None = None, split: str | None = None) -> np.ndarray:
        """Which records belong to a context and a split, as booleans [records]."""
        chosen = np.ones(len(self.context), dtype=bool)
        if context is not None:
            chosen &= self.context == CONTEXTS.index(context)
        if split is not None:
            chosen &= self.split == SPLITS.index(split)
        return chosen


def describe_records(path: Path, contexts: Sequence[str]) -> dict[str, Any]:
    """What the finished records are like."""
    ids = Ids(path)
    return {
        "records": len(ids.context),
        "contexts": count_records(ids, contexts),
        "overlap": split_overlap(ids),
        "repeated_texts": repeated_texts(ids, contexts),
        "shared_images": shared_images(ids),
        "clinical_context": clinical_contexts(path),
        "views": value_counts(path, "view"),
        "sections": value_counts(path, "sections"),
        "emphasis": emphasis_summary(path),
    }


def count_records(ids: Ids, contexts: Sequence[str]) -> dict[str, dict[str, dict[str, int]]]:
    """``{context: {split: {records, studies, subjects, paper}}}``, splits without records included."""
    table: dict[str, dict[str, dict[str, int]]] = {c: {s: {} for s in SPLITS} for c in contexts}
    for name, column in (("studies", "study_id"), ("subjects", "subject_id")):
        found = hashes(ids.path, column)
        for context in contexts:
            for split in SPLITS:
                rows = ids.rows(context, split)
                table[context][split] |= {"records": int(rows.sum()), name: len(distinct(found[rows]))}
    for context in contexts:
        for split in SPLITS:
            table[context][split]["paper"] = PAPER_RECORDS[context][split]
    return table


def split_overlap(ids: Ids) -> dict[str, dict[str, dict[str, Any]]]:
    """Studies and subjects that occur in two splits: ``{study|subject: {"train-val": {count, examples}, ...}}``."""
    overlap: dict[str, dict[str, dict[str, Any]]] = {}
    for name in ("study", "subject"):
        found = hashes(ids.path, f"{name}_id")
        parts = {split: distinct(found[ids.rows(split=split)]) for split in SPLITS}
        overlap[name] = {}
        for first, second in combinations(SPLITS, 2):
            shared = np.intersect1d(parts[first], parts[second], assume_unique=True)
            overlap[name][f"{first}-{second}"] = {
                "count": len(shared),
                "examples": _names(ids.path, f"{name}_id", found, shared[:_LISTED]),
            }
    return overlap


def _names(path: Path, column: str, found: np.ndarray, wanted: np.ndarray) -> list[str]:
    if not len(wanted):
        return []
    _, first = np.unique(found, return_index=True)
    return sorted(texts(path, column, np.sort(first[np.isin(found[first], wanted)])))


def repeated_texts(ids: Ids, contexts: Sequence[str]) -> dict[str, Any]:
    """How often target reports repeat.

    ``{"within": {context: {records, distinct, most_frequent}}, "known_from_train": {context: {split: records}}}``:
    the second counts val and test records whose whole report occurs in train of the same context.
    """
    found = hashes(ids.path, "report")
    within: dict[str, dict[str, int]] = {}
    known: dict[str, dict[str, int]] = {}
    for context in contexts:
        part = found[ids.rows(context)]
        _, counts = np.unique(part, return_counts=True)
        within[context] = {"records": len(part), "distinct": len(counts), "most_frequent": int(counts.max(initial=0))}
        train = distinct(found[ids.rows(context, "train")])
        known[context] = {s: int(np.isin(found[ids.rows(context, s)], train).sum()) for s in SPLITS[1:]}
    return {"within": within, "known_from_train": known}


def shared_images(ids: Ids) -> dict[str, int]:
    """How many images stand in records of more than one ``study``, ``subject`` and ``split`` (the same path)."""
    images = [hashes(ids.path, column) for column in ("frontal", "lateral")]
    counts = {}
    for name in ("study", "subject", "split"):
        owner = ids.split.astype(np.uint64) if name == "split" else hashes(ids.path, f"{name}_id")
        counts[name] = sum(_shared(image, owner) for image in images)
    return counts


def _shared(image: np.ndarray, owner: np.ndarray) -> int:
    """Number of images that have more than one owner; 0 stands for no image."""
    order = np.argsort(image, kind="stable")
    image, owner = image[order], owner[order]
    first = np.flatnonzero(np.concatenate([[True], image[1:] != image[:-1]]))
    start = np.repeat(first, np.diff(np.append(first, len(image))))
    return len(distinct(image[(owner != owner[start]) & (image != 0)]))


def clinical_contexts(path: Path) -> dict[str, dict[str, int]]:
    """``{context: {indication, history}}``: records that have one."""
    counts: dict[str, Counter[str]] = {}
    for frame in batches(path, ["context", "indication", "history"]):
        for context, *found in frame.group_by("context").agg(pl.col("indication", "history").count()).iter_rows():
            entry = counts.setdefault(context, Counter({"indication": 0, "history": 0}))
            entry.update(dict(zip(("indication", "history"), found, strict=True)))
    return {context: dict(entry) for context, entry in sorted(counts.items())}


def value_counts(path: Path, column: str) -> dict[str, dict[str, int]]:
    """``{context: {value: records}}`` of a column."""
    counts = pl.scan_parquet(path).group_by("context", column).len().sort("context", column)
    table: dict[str, dict[str, int]] = {}
    for context, value, count in counts.collect(engine="streaming").iter_rows():
        table.setdefault(context, {})[value] = count
    return table


def emphasis_summary(path: Path) -> dict[str, Any]:
    """How many records have emphasised tokens, how long the lists are, and what is unusual about them.

    ``lengths`` counts lists by their number of entries, in classes of ten named by their first.
    """
    lengths: Counter[int] = Counter()
    total = emphasised = outside = cut = 0
    for frame in batches(path, ["emphasis", "emphasis_text"], size=8192):
        total += frame.height
        present = frame["emphasis"].drop_nulls()
        cut += int(frame["emphasis_text"].is_not_null().sum())
        for length, count in present.list.len().value_counts().iter_rows():
            lengths[length] += count
        entries = present.explode().drop_nulls()
        emphasised += int((entries > 0).sum())
        outside += int(((entries != 0) & (entries != 1)).sum())
    lists = sum(lengths.values())
    classes: Counter[int] = Counter()
    for length, count in lengths.items():
        classes[length // _LENGTH_STEP * _LENGTH_STEP] += count
    return {
        "records_with_list": lists,
        "records_without_list": total - lists,
        "shortest": min(lengths, default=0),
        "longest": max(lengths, default=0),
        "mean_length": round(sum(n * count for n, count in lengths.items()) / max(lists, 1), 2),
        f"longer_than_{EMPHASIS_POSITIONS}": sum(c for n, c in lengths.items() if n > EMPHASIS_POSITIONS),
        "follow_a_longer_text": cut,
        "emphasised_entries": emphasised,
        "entries_outside_0_1": outside,
        "lengths": {str(start): classes[start] for start in sorted(classes)},
    }


def prior_summary(path: Path) -> dict[str, Any]:
    """Which studies supplied the previous reports: gaps, rules, ties (``known`` 0: the format does not say).

    ``gaps`` counts studies by days since the previous one, classes named by their upper end.
    """
    table = pl.read_parquet(path, columns=["gap_days", "rule", "tied", "passed_over"])
    gaps = table["gap_days"].drop_nulls()
    ends = (*GAP_DAYS, float("inf"))
    counts = {}
    for low, high in zip((-1.0, *GAP_DAYS), ends):
        name = f"up to {high}" if high in GAP_DAYS else f"over {GAP_DAYS[-1]}"
        counts[name] = int(((gaps > low) & (gaps <= high)).sum())
    return {
        "known": table.height,
        "tied": int(table["tied"].sum()),
        "passed_over": int((table["passed_over"] > 0).sum()),
        "rules": dict(sorted(table["rule"].value_counts().iter_rows())),
        "median_gap_days": None if gaps.is_empty() else round(float(np.median(gaps.to_numpy())), 2),
        "longest_gap_days": None if gaps.is_empty() else round(float(gaps.to_numpy().max()), 2),
        "gaps": counts,
    }


def image_summary(path: Path, missing: int, unreadable: int) -> dict[str, Any]:
    """Number, bytes and pixel sizes of the images in use, and how many were missing or unreadable."""
    width, height = pl.col("width"), pl.col("height")
    found = (
        pl.scan_parquet(path)
        .select(
            pl.len().alias("count"),
            pl.col("bytes").sum(),
            width.min().alias("least_width"),
            height.min().alias("least_height"),
            width.max().alias("most_width"),
            height.max().alias("most_height"),
        )
        .collect(engine="streaming")
        .row(0, named=True)
    )
    return {
        "count": found["count"],
        "bytes": found["bytes"],
        "missing": missing,
        "unreadable": unreadable,
        "smallest": [found["least_width"], found["least_height"]],
        "largest": [found["most_width"], found["most_height"]],
    }
