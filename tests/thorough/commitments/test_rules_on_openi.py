"""The rules on real reports: human MeSH labels, CheXpert's labels, cleaned text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pacer.commitments.rules.extract import extract_anchor
from pacer.data.cleaning import clean_report
from tests.support import openi_labels as labels
from tests.support.real import real
from tests.unit.commitments.rules.test_matching import assert_found


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return labels.read_openi(real("openi/reports.jsonl.gz").parents[1])


def test_positives_against_human_labels(rows: list[dict[str, Any]]) -> None:
    gold = [labels.present(row) for row in rows]
    found = [set(extract_anchor(labels.whole(row)).positive) for row in rows]
    table = labels.counts(gold, found, list(labels.GOLD))
    assert len(rows) == 2365
    assert labels.f1(table) == pytest.approx(0.894, abs=5e-4)
    assert labels.interval(table)[0] >= 0.80
    by_chexpert = [set(labels.chexpert_anchor(row).positive) for row in rows]
    assert labels.f1(labels.counts(gold, by_chexpert, list(labels.GOLD))) == pytest.approx(0.628, abs=5e-4)


def test_denials_against_chexpert(rows: list[dict[str, Any]]) -> None:
    rows = [row for row in rows if row["findings"]]
    known = [set(labels.chexpert_anchor(row).negative) for row in rows]
    found = [set(extract_anchor(row["findings"]).negative) for row in rows]
    table = labels.counts(known, found, labels.DENIED)
    assert labels.f1(table) == pytest.approx(0.961, abs=5e-4)
    by_finding = table.sum(axis=0)
    recall = by_finding[:, 0] / (by_finding[:, 0] + by_finding[:, 2])
    assert recall.min() >= 0.96, dict(zip(labels.DENIED, np.round(recall, 3).tolist(), strict=True))


def test_cleaned_reports_read_the_same(rows: list[dict[str, Any]]) -> None:
    texts = [labels.whole(row) for row in rows]
    same = [extract_anchor(text) == extract_anchor(clean_report(text)) for text in texts]
    assert np.mean(same) > 0.99


def test_patterns_are_found_as_by_a_search_for_each_alone(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert_found(labels.whole(row))
