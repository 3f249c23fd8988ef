"""What is said and drawn about a corpus, from audits that the corpus stage wrote."""

from __future__ import annotations

import json

import pytest

from pacer.reporting.audits import corpus_table
from tests.support.corpus import lines_of, looks_of


@pytest.fixture
def audit(full_run) -> dict:
    return json.loads((full_run.root / "corpus" / "audit.json").read_text())


def test_lines_of_annotation_files(audit: dict):
    found = lines_of(audit)
    assert found["Rows read"] == "134 (sn 42, sw 40, mn 26, mw 26): 132 used, 2 bad"
    assert found["Bad rows or records"] == "2: 2 × finding: neither findings nor impression"
    assert found["Rows or records left out"] == "none"
    assert found["Images"].endswith(", 112 × 112 pixels")
    assert found["Time since the previous study"] == "the format does not say"
    assert found["Views"] == "sn, sw: AP 35.0 %, PA 32.5 %, other 32.5 %; mn, mw: PA 50.0 %, other 50.0 %"
    assert found["Fields that are not used"] == "sn: 3 × colour"
    assert found["Original references"] == "not available"
    assert looks_of(audit) == {
        "Bad rows or records",
        "Fields that are not used",
        "Targets that mention an absent previous report",
    }


def test_lines_of_ones_own_table(own_audit: dict):
    found = lines_of(own_audit)
    assert found["Rows read"] == "60: 39 used, 1 bad, 20 left out"
    reason = "every sentence presupposes a previous report (corpus.unseen_comparisons: strip)"
    left = f"30: 20 × {reason}; 9 × no frontal image; 1 × unknown view"
    assert found["Rows or records left out"] == left
    assert (
        found["Targets that mention an absent previous report"]
        == "sn 40.8 % of 49; stripped (corpus.unseen_comparisons)"
    )
    assert found["Time since the previous study"] == "median 33 days, longest 33 days; 20 studies: 20 by date"
    assert found["Previous studies equally near"] == "none"
    assert "Targets that mention an absent previous report" not in looks_of(own_audit)


def test_the_table_stands_beside_the_papers_sizes_of_its_own_files(audit: dict):
    table = corpus_table(audit)
    assert table.columns == ("Context", "train", "paper", "val", "paper", "test", "paper", "studies", "patients")
    assert table.rows[0] == ("SN", "28", "172,608", "4", "1,391", "8", "2,357", "40", "20")
    assert table.rows[-1] == ("All", "92", "424,411", "14", "3,400", "26", "6,215", "", "")
    assert table.summary == 4
    assert "paper" not in corpus_table(audit | {"format": "table"}).columns


def test_no_report_text_is_said_or_drawn(own_audit: dict, audit: dict, secret: str, sentences: tuple[str, ...]):
    assert secret[:16] not in json.dumps(own_audit)  # although a report stands in the column of views
    assert lines_of(own_audit)["Images whose view is not known"] == "table: 1 × text of 41 characters"
    for one in (own_audit, audit):
        shown = repr(one["checks"]) + repr(corpus_table(one))
        for text in (secret, *sentences):
            assert text[:16] not in shown
