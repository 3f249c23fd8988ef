"""What is said and drawn about a corpus, from audits that the corpus stage wrote."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from pacer.data.build_corpus import build_corpus
from pacer.data.source import point_to_files
from pacer.reporting.audits import corpus_table
from tests.support.corpus import lines_of, looks_of
from tests.support.reporting import SENTENCES, files_config

#: A report in the column of views.
SECRET = "zephyrine opacity in the left lung base ."
COMPARES = "Targets that mention an absent previous report"


@pytest.fixture
def audit(full_run) -> dict:
    return json.loads((full_run.root / "corpus" / "audit.json").read_text())


@pytest.fixture
def own_audit(tmp_path: Path) -> dict:
    """The audit of a table of one's own studies, of which some compare, and some are left out or bad."""
    Image.linear_gradient("L").save(tmp_path / "f.png")
    studies = (
        ("p1", "PA", "2024-01-01", SENTENCES[1]),
        ("p1", "AP", "2024-02-03", SENTENCES[0]),
        ("p2", "PA", "2024-01-01", SENTENCES[0]),  # compares, and nothing else
        ("p3", "LL", "2024-01-01", SENTENCES[2]),
        ("p4", SECRET, "2024-01-01", SENTENCES[2]),
        ("p5", "PA", "05/06/2024", SENTENCES[2]),  # it has two meanings
    )
    rows = [(*row, str(number), "f.png", "test") for number, row in enumerate(studies)]
    names = ("subject", "view", "date", "findings", "study", "image", "split")
    pl.DataFrame(rows, names, orient="row").write_csv(tmp_path / "t.csv")
    table = {"file": "t.csv", "columns": {}, "delimiter": None, "encoding": "utf-8"}
    config = files_config(tmp_path, format="table", max_bad_rows=1, unseen_comparisons="strip", table=table)
    point_to_files(config, tmp_path / "source")
    return build_corpus(config, tmp_path / "source", tmp_path / "corpus")


def test_lines_of_annotation_files(audit: dict):
    found = lines_of(audit)
    expected = {
        "Rows read": "134 (sn 42, sw 40, mn 26, mw 26): 132 used, 2 bad",
        "Bad rows or records": "2: 2 × finding: neither findings nor impression",
        "Rows or records left out": "none",
        "Time since the previous study": "the format does not say",
        "Views": "sn, sw: AP 35.0 %, PA 32.5 %, other 32.5 %; mn, mw: PA 50.0 %, other 50.0 %",
        "Fields that are not used": "sn: 3 × colour",
        "Original references": "not available",
    }
    assert {name: found[name] for name in expected} == expected and found["Images"].endswith(", 112 × 112 pixels")
    assert looks_of(audit) == {"Bad rows or records", "Fields that are not used", COMPARES}


def test_lines_of_ones_own_table(own_audit: dict):
    found = lines_of(own_audit)
    assert found["Rows read"] == "6: 2 used, 1 bad, 3 left out"
    reason = "every sentence presupposes a previous report (corpus.unseen_comparisons: strip)"
    assert found["Rows or records left out"] == f"4: 2 × {reason}; 1 × no frontal image; 1 × unknown view"
    assert found[COMPARES] == "sn 66.7 % of 3; stripped (corpus.unseen_comparisons)"
    assert found["Time since the previous study"] == "median 33 days, longest 33 days; 1 studies: 1 by date"
    assert found["Previous studies equally near"] == "none" and COMPARES not in looks_of(own_audit)


def test_the_table_stands_beside_the_papers_sizes_of_its_own_files(audit: dict):
    table = corpus_table(audit)
    assert table.columns == ("Context", "train", "paper", "val", "paper", "test", "paper", "studies", "patients")
    assert table.rows[0] == ("SN", "28", "172,608", "4", "1,391", "8", "2,357", "40", "20")
    assert table.rows[-1] == ("All", "92", "424,411", "14", "3,400", "26", "6,215", "", "")
    assert table.summary == 4
    assert "paper" not in corpus_table(audit | {"format": "table"}).columns


def test_no_report_text_is_said_or_drawn(own_audit: dict, audit: dict):
    assert lines_of(own_audit)["Images whose view is not known"] == "table: 1 × text of 41 characters"
    shown = json.dumps(own_audit) + repr([(one["checks"], corpus_table(one)) for one in (own_audit, audit)])
    assert not [text for text in (SECRET, *SENTENCES) if text[:16] in shown]
