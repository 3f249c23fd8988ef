"""What is said and drawn about a corpus: from audits that the corpus stage wrote, whole and with changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pacer.core.errors import DataError
from pacer.core.io import read_json, write_json
from pacer.data.checks import corpus_checks, plain
from pacer.emphasis.audit import emphasis_checks
from pacer.reporting.audits import corpus_table
from pacer.reporting.build_report import build_report
from tests.support.reporting import EMPHASIS_AUDIT


@pytest.fixture
def audit(full_run) -> dict:
    return json.loads((full_run.root / "corpus" / "audit.json").read_text())


def lines(audit: dict) -> dict[str, str]:
    return {check.name: check.detail for check in corpus_checks(audit)}


def looks(audit: dict) -> set[str]:
    return {check.name for check in corpus_checks(audit) if not check.good}


def test_lines_of_annotation_files(audit: dict):
    found = lines(audit)
    assert found["Rows read"] == "134 (sn 42, sw 40, mn 26, mw 26): 132 used, 2 bad"
    assert found["Bad rows or records"] == "2: 2 × finding: neither findings nor impression"
    assert found["Rows or records left out"] == "none"
    assert found["Images"].endswith(", 112 × 112 pixels")
    assert found["Time since the previous study"] == "the format does not say"
    assert found["Views"] == "sn, sw: AP 35.0 %, PA 32.5 %, other 32.5 %; mn, mw: PA 50.0 %, other 50.0 %"
    assert found["Fields that are not used"] == "sn: 3 × colour"
    assert found["Original references"] == "not available"
    assert looks(audit) == {
        "Bad rows or records",
        "Fields that are not used",
        "Targets that mention an absent previous report",
    }


def test_lines_of_ones_own_table(own_audit: dict):
    found = lines(own_audit)
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
    assert "Targets that mention an absent previous report" not in looks(own_audit)


def test_what_would_spoil_an_evaluation_is_marked(audit: dict):
    audit |= {"shared_images": {"study": 7, "subject": 2, "split": 1}, "format": "table"}
    empty = {"records": 0, "studies": 0, "subjects": 0, "paper": 5}
    audit["contexts"]["mn"] = {split: dict(empty) for split in audit["contexts"]["sn"]}
    found = lines(audit)
    assert found["Images used more than once"] == "2 in two patients, 1 in two splits, 7 in two studies"
    assert "MN test" in found["Contexts and splits without a record"]
    marked = {"Images used more than once", "Contexts and splits without a record"}
    assert marked <= looks(audit)
    assert "paper" not in corpus_table(audit).columns
    audit |= {"format": "rg4"}
    assert "paper" in corpus_table(audit).columns


def test_prior_wording_is_counted_by_context_and_marked_above_a_twentieth(audit: dict):
    name = "Targets that mention an absent previous report"
    audit["prior_wording"] = {
        "mn": {"test": {"records": 100, "comparing": 5}},
        "sn": {"train": {"records": 2000, "comparing": 700}, "val": {"records": 945, "comparing": 121}},
    }
    shares, advice = lines(audit)[name].split("; ")
    assert shares == "sn 27.9 % of 2,945, mn 5.0 % of 100"
    assert advice == "corpus.unseen_comparisons: strip takes out these sentences, and the findings in them"
    assert name in looks(audit)
    del audit["prior_wording"]["sn"]
    assert lines(audit)[name] == "mn 5.0 % of 100" and name not in looks(audit)
    audit["prior_wording"] = {}
    assert lines(audit)[name] == "no context in use lacks the previous report"


def test_repeated_test_reports_are_a_share_of_each_context(audit: dict):
    name = "Test reports word for word in train"
    audit["repeated_texts"]["known_from_train"] = {c: {"val": 0, "test": 1} for c in ("sn", "sw", "mn", "mw")}
    assert lines(audit)[name] == "sn 12.5 % of 8, sw 12.5 % of 8, mn 20.0 % of 5, mw 20.0 % of 5"
    assert name not in looks(audit)
    audit["repeated_texts"]["known_from_train"]["sn"]["test"] = 4
    assert name in looks(audit) and "remembers train" in lines(audit)[name]
    for context in audit["contexts"].values():
        context["train"]["records"] = 0
    assert name not in lines(audit)
    assert not any("train" in line for line in (*corpus_table(audit).columns, *lines(audit)))


def test_leaks_and_lost_rows_are_marked(audit: dict):
    audit["overlap"]["subject"]["train-test"] = {"count": 1200, "examples": ["p1"]}
    audit["rows"]["used"] -= 3
    audit["images"] |= {"missing": 2, "unreadable": 1}
    found = lines(audit)
    assert found["Patients in two splits"] == "1,200 in train and test"
    assert found["Rows read"].endswith("3 not accounted for")
    assert found["Images missing or unreadable"] == "2 missing, 1 unreadable"
    assert {"Patients in two splits", "Rows read", "Images missing or unreadable"} <= looks(audit)


def test_odd_previous_studies_are_marked(own_audit: dict):
    own_audit["priors"] |= {"tied": 2, "empty": 4}
    found = lines(own_audit)
    assert found["Previous studies equally near"] == "2: the larger id was taken"
    assert found["Previous reports empty after cleaning"] == "4"
    assert "Previous studies equally near" in looks(own_audit)


def test_a_topic_that_nobody_has_heard_of_is_shown(audit: dict):
    audit["notes"]["strange_things"] = {"sn": {f"value {n}": 10 - n for n in range(8)}, "mn": {"x": 1}}
    shown = lines(audit)["Strange things"]
    assert shown.startswith("sn: 10 × value 0, 9 × value 1") and shown.endswith("3 others; mn: 1 × x")
    assert "Strange things" in looks(audit)


def test_reasons_beyond_the_first_are_counted(audit: dict):
    audit["excluded"] = {"count": 21, "reasons": {f"field {n}: no": 6 - n for n in range(6)}}
    shown = lines(audit)["Bad rows or records"]
    assert shown.startswith("21: 6 × field 0: no") and shown.endswith("; 1 for another reason")


def test_long_words_are_cut_and_lines_joined():
    assert plain("a\nb\x00c" + "d" * 200, 10) == "a b cdddd…"


def test_the_table_stands_beside_the_papers(audit: dict):
    table = corpus_table(audit)
    assert table.columns == ("Context", "train", "paper", "val", "paper", "test", "paper", "studies", "patients")
    assert table.rows[0] == ("SN", "28", "172,608", "4", "1,391", "8", "2,357", "40", "20")
    assert table.rows[-1] == ("All", "92", "424,411", "14", "3,400", "26", "6,215", "", "")
    assert table.summary == 4


def test_no_report_text_is_said_or_drawn(own_audit: dict, audit: dict, secret: str, sentences: tuple[str, ...]):
    assert secret[:16] not in json.dumps(own_audit)  # although a report stands in the column of views
    assert lines(own_audit)["Images whose view is not known"] == "table: 1 × text of 41 characters"
    for one in (own_audit, audit):
        shown = repr(corpus_checks(one)) + repr(corpus_table(one))
        for text in (secret, *sentences):
            assert text[:16] not in shown


def test_an_old_audit_stops_the_report(full_run, tmp_path: Path):
    path = full_run.root / "corpus" / "audit.json"
    old = read_json(path)
    del old["rows"]
    write_json(path, old)
    with pytest.raises(DataError, match="lacks 'rows'; make the corpus again"):
        build_report(**full_run.arguments, out=tmp_path / "reports")
    assert not (tmp_path / "reports").exists()


def test_emphasis_lines() -> None:
    found = {name: (said, good) for name, said, good in emphasis_checks(EMPHASIS_AUDIT)}
    assert found == {
        "Emphasis in training (computed)": ("37.5 % of 40 sentences", True),
        "Released emphasis that was changed, records": ("3 shortened, 3 dropped", False),
        "Precision and recall of computed emphasis against released, train": (
            "tokens 0.875 and 0.750, sentences 0.875 and 0.500",
            True,
        ),
    }
    doubted = EMPHASIS_AUDIT | {"doubt": "nothing is set apart"}
    assert emphasis_checks(doubted)[0] == ("Emphasis in training (computed)", "nothing is set apart", False)
    with pytest.raises(DataError, match="make the emphasis again"):
        emphasis_checks({"train": {}, "val": {}})
