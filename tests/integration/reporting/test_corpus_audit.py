"""What is said and drawn about a corpus, from audits that the corpus stage wrote."""

from __future__ import annotations

import json

import pytest

from pacer.reporting.audits import corpus_table
from tests.support.reporting import SENTENCES


@pytest.fixture
def audit(full_run) -> dict:
    return json.loads((full_run.root / "corpus" / "audit.json").read_text())


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
