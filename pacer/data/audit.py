"""The audit of a corpus: its size beside the paper's, leaks and repeats, gaps to previous studies, odd values.

Everything is computed from the finished tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from pacer.data.schemas import EMPHASIS_POSITIONS, SPLITS

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
LISTED = 20
#: Entries of an emphasis list per class of the histogram of lengths.
_LENGTH_STEP = 10


def describe_records(records: pl.DataFrame, contexts: Sequence[str]) -> dict[str, Any]:
    """What the finished records are like."""
    return {
        "records": records.height,
        "contexts": count_records(records, contexts),
        "overlap": split_overlap(records),
        "repeated_texts": repeated_texts(records, contexts),
        "shared_images": shared_images(records),
        "clinical_context": clinical_contexts(records),
        "views": value_counts(records, "view"),
        "sections": value_counts(records, "sections"),
        "emphasis": emphasis_summary(records),
    }


def count_records(records: pl.DataFrame, contexts: Sequence[str]) -> dict[str, dict[str, dict[str, int]]]:
    """``{context: {split: {records, studies, subjects, paper}}}``, splits without records included."""
    counts = {
        (context, split): dict(zip(("records", "studies", "subjects"), found, strict=True))
        for context, split, *found in records.group_by("context", "split")
        .agg(pl.len(), pl.col("study_id", "subject_id").n_unique())
        .iter_rows()
    }
    none = {"records": 0, "studies": 0, "subjects": 0}
    return {c: {s: counts.get((c, s), none) | {"paper": PAPER_RECORDS[c][s]} for s in SPLITS} for c in contexts}


def split_overlap(records: pl.DataFrame) -> dict[str, dict[str, dict[str, Any]]]:
    """Studies and subjects that occur in two splits: ``{study|subject: {"train-val": {count, examples}, ...}}``."""
    overlap: dict[str, dict[str, dict[str, Any]]] = {}
    for name in ("study", "subject"):
        ids = {s: set(records.filter(split=s)[f"{name}_id"].unique()) for s in SPLITS}
        pairs = {f"{first}-{second}": ids[first] & ids[second] for first, second in combinations(SPLITS, 2)}
        overlap[name] = {
            pair: {"count": len(shared), "examples": sorted(shared)[:LISTED]} for pair, shared in pairs.items()
        }
    return overlap


def repeated_texts(records: pl.DataFrame, contexts: Sequence[str]) -> dict[str, Any]:
    """How often target reports repeat.

    ``{"within": {context: {records, distinct, most_frequent}}, "known_from_train": {context: {split: records}}}``:
    the second counts val and test records whose whole report occurs in train of the same context.
    """
    within: dict[str, dict[str, int]] = {}
    known: dict[str, dict[str, int]] = {}
    for context in contexts:
        part = records.filter(context=context)
        counts = part["report"].value_counts()["count"].to_list()
        within[context] = {"records": part.height, "distinct": len(counts), "most_frequent": max(counts, default=0)}
        train = part.filter(split="train").select("report").unique()
        known[context] = {s: part.filter(split=s).join(train, on="report", how="semi").height for s in SPLITS[1:]}
    return {"within": within, "known_from_train": known}


def shared_images(records: pl.DataFrame) -> dict[str, int]:
    """How many images stand in records of more than one ``study``, ``subject`` and ``split`` (the same path)."""
    owners = {"study": "study_id", "subject": "subject_id", "split": "split"}
    counts = dict.fromkeys(owners, 0)
    for image in ("frontal", "lateral"):
        found = records.drop_nulls(image).group_by(image).agg(pl.col(*owners.values()).n_unique() > 1)
        for name, column in owners.items():
            counts[name] += int(found[column].sum())
    return counts


def clinical_contexts(records: pl.DataFrame) -> dict[str, dict[str, int]]:
    """``{context: {indication, history}}``: records that have one."""
    counts = records.group_by("context").agg(pl.col("indication", "history").count()).sort("context")
    return {row.pop("context"): row for row in counts.to_dicts()}


def value_counts(records: pl.DataFrame, column: str) -> dict[str, dict[str, int]]:
    """``{context: {value: records}}`` of a column."""
    table: dict[str, dict[str, int]] = {}
    for context, value, count in records.group_by("context", column).len().sort("context", column).iter_rows():
        table.setdefault(context, {})[value] = count
    return table


def emphasis_summary(records: pl.DataFrame) -> dict[str, Any]:
    """How many records have emphasised tokens, how long the lists are, and what is unusual about them.

    ``lengths`` counts lists by their number of entries, in classes of ten named by their first.
    """
    entries, entry = pl.col("emphasis").list, pl.element()
    found = records.select(
        entries.len().cast(pl.Int64).alias("length"),
        entries.eval(entry > 0).list.sum().cast(pl.Int64).alias("emphasised"),
        entries.eval((entry != 0) & (entry != 1)).list.sum().cast(pl.Int64).alias("outside"),
        pl.col("emphasis_text").is_not_null().alias("cut"),
    )
    lengths = found["length"].drop_nulls()
    classes = Counter((lengths // _LENGTH_STEP * _LENGTH_STEP).to_list())
    return {
        "records_with_list": len(lengths),
        "records_without_list": found.height - len(lengths),
        "shortest": lengths.min() or 0,
        "longest": lengths.max() or 0,
        "mean_length": round(lengths.sum() / max(len(lengths), 1), 2),
        f"longer_than_{EMPHASIS_POSITIONS}": int((lengths > EMPHASIS_POSITIONS).sum()),
        "follow_a_longer_text": int(found["cut"].sum()),
        "emphasised_entries": int(found["emphasised"].sum()),
        "entries_outside_0_1": int(found["outside"].sum()),
        "lengths": {str(start): classes[start] for start in sorted(classes)},
    }


def prior_summary(priors: pl.DataFrame) -> dict[str, Any]:
    """Which studies supplied the previous reports: gaps, rules, ties (``known`` 0: the format does not say).

    ``gaps`` counts studies by days since the previous one, classes named by their upper end.
    """
    gaps = priors["gap_days"].drop_nulls().to_numpy()
    names = [*(f"up to {days}" for days in GAP_DAYS), f"over {GAP_DAYS[-1]}"]
    counts = np.bincount(np.searchsorted(GAP_DAYS, gaps), minlength=len(names)).tolist()
    return {
        "known": priors.height,
        "tied": int(priors["tied"].sum()),
        "passed_over": int((priors["passed_over"] > 0).sum()),
        "rules": dict(sorted(priors["rule"].value_counts().iter_rows())),
        "median_gap_days": round(float(np.median(gaps)), 2) if gaps.size else None,
        "longest_gap_days": round(float(gaps.max()), 2) if gaps.size else None,
        "gaps": dict(zip(names, counts, strict=True)),
    }


def image_summary(images: pl.DataFrame, missing: int, unreadable: int) -> dict[str, Any]:
    """Number, bytes and pixel sizes of the images in use, and how many were missing or unreadable."""
    width, height = images["width"], images["height"]
    return {
        "count": images.height,
        "bytes": images["bytes"].sum(),
        "missing": missing,
        "unreadable": unreadable,
        "smallest": [width.min(), height.min()],
        "largest": [width.max(), height.max()],
    }
