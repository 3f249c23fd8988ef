"""What is said and drawn about a corpus, from audits that the corpus stage wrote."""

from __future__ import annotations

import json

import pytest

from pacer.reporting.audits import corpus_table
from tests.support.corpus import lines_of, looks_of
from tests.support.reporting import SENTENCES

COMPARES = "Targets that mention an absent previous report"


@pytest.fixture
def audit(full_run) -> dict:
    return json.loads((full_run.root / "corpus" / "audit.json").read_text())


def test_lines_of_annotation_files(audit: dict):
    found = lines_of(audit)
    expected = {
        "Rows read": "134 (sn 42, sw 40, mn 26, mw 26): 132 used, 2 bad",
        "Bad rows or records": "2: 2 × finding: neither findings nor impression",
        "Rows or records left out": "none",
        "Time since the previous study": "the format does not say",
        "Fields that are not used": "sn: 3 × colour",
        "Original references": "not available",
    }
    assert {name: found[name] for name in expected} == expected and found["Images"].endswith(", 112 × 112 pixels")
    assert looks_of(audit) == {"Bad rows or records", "Fields that are not used", COMPARES}


def test_the_table_stands_beside_the_papers_sizes_of_its_own_files(audit: dict):
    table = corpus_table(audit)
    assert table.columns == ("Context", "train", "paper", "val", "paper", "test", "paper", "studies", "patients")
    assert table.rows[0] == ("SN", "28", "172,608", "4", "1,391", "8", "2,357", "40", "20")
    assert table.rows[-1] == ("All", "92", "424,411", "14", "3,400", "26", "6,215", "", "")
    assert table.summary == 4
    assert "paper" not in corpus_table(audit | {"format": "table"}).columns


def test_no_report_text_is_said_or_drawn(audit: dict):
    shown = json.dumps(audit) + repr([audit["checks"], corpus_table(audit)])
    assert not [text for text in SENTENCES if text[:16] in shown]
