"""The rules on Open-I: human MeSH terms (presence), CheXpert-labeler (polarity on the findings),
and cleaned text.

The gold's labels are presence alone; a finding that a report calls possible counts as present in
it. ``Effusion`` is pleural effusion, ``Pleural_Thickening`` pleural abnormality (MeSH "Thickening",
of anything), ``Nodule`` and ``Mass`` lung lesion. It has no label for fracture, lung opacity,
enlarged mediastinum and devices.
"""

import gzip
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pacer.backbones.observations import OBSERVATION_OF
from pacer.core.anchor import POLARITIES, Anchor
from pacer.text.cleaning.cleaners import clean_report
from pacer.text.rules import extract_anchor
from pacer.text.rules.paper import extract_paper_anchor
from tests.support.real import real

#: MeSH labels of each finding.
GOLD = {
    "pleural effusion": ("Effusion",),
    "pleural abnormality": ("Pleural_Thickening",),
    "lung lesion": ("Nodule", "Mass"),
}
ALIKE = ("atelectasis", "cardiomegaly", "consolidation", "edema", "pneumonia", "pneumothorax")
GOLD |= {name: (name.capitalize(),) for name in ALIKE}
#: Findings whose denials are compared.
DENIED = (
    "cardiomegaly",
    "consolidation",
    "pneumothorax",
    "pleural effusion",
    "pneumonia",
    "edema",
    "fracture",
)
_CLASS = {1: "positive", 0: "negative", -1: "uncertain"}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """The labelled reports of train and val."""
    with gzip.open(real("openi/reports.jsonl.gz"), "rt") as file:
        found = [json.loads(line) for line in file]
    return [row for row in found if row["split"] in ("train", "val") and row.get("gold14_mesh")]


def whole(row: dict[str, Any]) -> str:
    """Findings and impression."""
    return " ".join(filter(None, (row["findings"], row["impression"])))


def chexpert_anchor(row: dict[str, Any]) -> Anchor:
    """CheXpert's labels of the findings section."""
    states = {
        finding: _CLASS.get(row["chexpert14_auto"][name])
        for finding, name in OBSERVATION_OF.items()
    }
    return Anchor.of(
        **{name: [f for f, state in states.items() if state == name] for name in POLARITIES}
    )


def counts(
    expected: Sequence[set[str]], found: Sequence[set[str]], findings: Sequence[str]
) -> np.ndarray:
    """Of each finding: reports that have it in both, found alone, expected alone [findings, 3]."""
    there, seen = (
        np.array([[name in names for name in findings] for names in sets])
        for sets in (expected, found)
    )
    return np.stack([there & seen, seen & ~there, there & ~seen], axis=-1).sum(axis=0)


def f1(table: np.ndarray) -> float:
    both, alone, missed = table.sum(axis=0)
    return 2 * both / (2 * both + alone + missed)


def gold_findings(rows: list[dict[str, Any]]) -> list[set[str]]:
    return [
        {
            name
            for name, labels in GOLD.items()
            if any(row["gold14_mesh"][label] for label in labels)
        }
        for row in rows
    ]


def test_positives_against_human_labels(rows: list[dict[str, Any]]) -> None:
    gold = gold_findings(rows)
    found = [set(extract_anchor(whole(row)).positive) for row in rows]
    assert len(rows) == 2365
    assert f1(counts(gold, found, list(GOLD))) >= 0.894
    by_chexpert = [set(chexpert_anchor(row).positive) for row in rows]
    assert f1(counts(gold, by_chexpert, list(GOLD))) == pytest.approx(0.628, abs=5e-4)


def test_positives_of_the_papers_rules(rows: list[dict[str, Any]]) -> None:
    found = [set(extract_paper_anchor(whole(row)).positive) for row in rows]
    assert f1(counts(gold_findings(rows), found, list(GOLD))) == pytest.approx(0.551, abs=0.02)


def test_denials_against_chexpert(rows: list[dict[str, Any]]) -> None:
    rows = [row for row in rows if row["findings"]]
    known = [set(chexpert_anchor(row).negative) for row in rows]
    table = counts(known, [set(extract_anchor(row["findings"]).negative) for row in rows], DENIED)
    assert f1(table) >= 0.955
    recall = table[:, 0] / (table[:, 0] + table[:, 2])
    assert recall.min() >= 0.96, dict(zip(DENIED, np.round(recall, 3).tolist(), strict=True))


def test_cleaned_reports_read_the_same(rows: list[dict[str, Any]]) -> None:
    texts = [whole(row) for row in rows]
    assert (
        np.mean([extract_anchor(text) == extract_anchor(clean_report(text)) for text in texts])
        > 0.99
    )
