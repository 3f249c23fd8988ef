"""What the rules are held to on Open-I: human MeSH terms (presence) and CheXpert-labeler (polarity on the findings).

The gold's labels are presence alone; a finding that a report calls possible counts as present in it. ``Effusion`` is
pleural effusion, ``Pleural_Thickening`` pleural abnormality (MeSH "Thickening", of anything), ``Nodule`` and ``Mass``
lung lesion. It has no label for fracture, lung opacity, enlarged mediastinum and devices.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pacer.commitments.anchor import POLARITIES, Anchor
from pacer.metrics.chexbert.observations import OBSERVATION_OF

#: MeSH labels of each finding.
GOLD: dict[str, tuple[str, ...]] = {
    "atelectasis": ("Atelectasis",),
    "cardiomegaly": ("Cardiomegaly",),
    "pleural effusion": ("Effusion",),
    "pneumonia": ("Pneumonia",),
    "pneumothorax": ("Pneumothorax",),
    "consolidation": ("Consolidation",),
    "edema": ("Edema",),
    "pleural abnormality": ("Pleural_Thickening",),
    "lung lesion": ("Nodule", "Mass"),
}

#: Findings whose denials are compared.
DENIED = ("cardiomegaly", "consolidation", "pneumothorax", "pleural effusion", "pneumonia", "edema", "fracture")

_CLASS = {1: "positive", 0: "negative", -1: "uncertain"}


def read_openi(folder: Path, splits: Sequence[str] = ("train", "val")) -> list[dict[str, Any]]:
    """The labelled reports of these splits."""
    with gzip.open(folder / "openi" / "reports.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if row["split"] in splits and row.get("gold14_mesh")]


def whole(row: dict[str, Any]) -> str:
    """Findings and impression."""
    return " ".join(filter(None, (row["findings"], row["impression"])))


def chexpert_anchor(row: dict[str, Any]) -> Anchor:
    """CheXpert's labels of the findings section."""
    states = {finding: _CLASS.get(row["chexpert14_auto"][name]) for finding, name in OBSERVATION_OF.items()}
    return Anchor.of(**{name: [f for f, state in states.items() if state == name] for name in POLARITIES})


def present(row: dict[str, Any]) -> set[str]:
    """The findings of the gold."""
    return {finding for finding, names in GOLD.items() if any(row["gold14_mesh"][name] for name in names)}


def counts(expected: Iterable[set[str]], found: Iterable[set[str]], findings: Sequence[str]) -> np.ndarray:
    """Of each report and finding: in both, found alone, expected alone [reports, findings, 3]."""
    pairs = list(zip(expected, found, strict=True))
    return np.array(
        [[(f in e and f in o, f in o and f not in e, f in e and f not in o) for f in findings] for e, o in pairs],
        dtype=np.int64,
    )


def f1(table: np.ndarray) -> float:
    """F1 of summed counts [..., 3]."""
    both, alone, missed = (int(n) for n in table.reshape(-1, 3).sum(axis=0))
    return 2 * both / (2 * both + alone + missed) if both + alone + missed else float("nan")


def interval(table: np.ndarray, draws: int = 2000, seed: int = 5) -> tuple[float, float]:
    """The middle 95 percent of F1 over reports drawn with replacement (draws without any label are left out)."""
    by_report = table.reshape(len(table), -1, 3).sum(axis=1)
    weights = np.random.default_rng(seed).multinomial(len(table), np.full(len(table), 1 / len(table)), size=draws)
    both, alone, missed = (weights @ by_report).T
    defined = both + alone + missed > 0
    if not defined.any():
        return float("nan"), float("nan")
    low, high = np.percentile((2 * both / np.maximum(2 * both + alone + missed, 1))[defined], (2.5, 97.5))
    return float(low), float(high)
