"""What supports a statement: spans make up the report, and their marks follow from what the two texts say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.commitments.anchor import Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.reporting.marks import Other, committed, sides, spans, statements
from tests.support.cases import listed_cases

SENTENCES = (
    "no evidence of pneumothorax .",
    "there is a small left pleural effusion .",
    "no pleural effusion .",
    "the heart is not enlarged .",
    "possible pneumonia at the right base .",
    "a picc ends in the svc .",
    "no pneumothorax , effusion or consolidation .",
    "the study is of good quality .",
    "effusion on the left , none on the right .",
)
REPORTS = st.lists(st.sampled_from(SENTENCES), max_size=6).map(" ".join)


def marked(report: str, compared_with: Other, other: str, first: str | None = None) -> dict[str, str]:
    known = None if first is None else statements(first)
    return {s.text: " ".join(s.marks) for s in spans(report, compared_with, statements(other), known) if s.marks}


def test_findings_are_marked_by_what_the_other_text_says():
    reference = "small pleural effusion . no evidence of pneumothorax . cardiomegaly ."
    generated = "no pleural effusion . there is no pneumothorax . a picc ends in the svc ."
    assert marked(generated, "reference", reference) == {
        "no pleural effusion": "opposite",
        "no pneumothorax": "matching",
        "picc": "unverified",
    }
    assert marked(reference, "generated", generated) == {
        "effusion": "opposite",
        "no evidence of pneumothorax": "matching",
        "cardiomegaly": "reference-only",
    }
    # a cue is taken along unless another mention stands between
    assert marked("no pneumothorax , effusion or consolidation .", "reference", "no effusion .") == {
        "no pneumothorax": "unverified",
        "effusion": "matching",
        "consolidation": "unverified",
    }
    # where phrases overlap, one without support determines the mark
    assert marked("effusion has resolved .", "reference", "no effusion .") == {
        "effusion ": "matching",
        "has resolved": "unverified longitudinal",
    }
    report = "no pneumothorax . small pleural effusion ."
    first = "no pneumothorax ."
    assert marked(report, "reference", report, first) == {"no pneumothorax": "matching", "effusion": "matching changed"}


def test_wording_of_comparison_is_a_phrase_of_its_own_that_rule_and_direction_support():
    """The paper's Figure 2: a line was inserted, not pulled back."""
    reference = "as compared with the previous radiograph , a new right picc line has been inserted ."
    generated = "as compared with the prior study , the picc line has been pulled back , effusion is unchanged ."
    found = marked(generated, "reference", reference)
    assert found["compared"] == found["prior study"] == "matching longitudinal" and found["picc"] == "matching"
    assert found["has been pulled"] == found["unchanged"] == "unverified longitudinal"
    alone = marked(reference, "generated", generated, "compared with before , no picc .")
    assert alone["compared"] == "matching longitudinal" and alone["picc"] == "matching changed"
    assert alone["new"] == alone["has been inserted"] == "reference-only longitudinal changed"


@given(REPORTS, REPORTS, st.none() | REPORTS)
def test_spans_are_the_report_and_agree_with_the_other_text(report: str, other: str, first: str | None):
    said, theirs = statements(report), statements(other)
    found = spans(report, "reference", theirs, None if first is None else statements(first))
    marks = {mark for span in found for mark in span.marks}
    assert "".join(span.text for span in found) == report
    assert marks <= {"matching", "unverified", "opposite", "longitudinal", "changed"}
    assert not {"unverified", "opposite"} & marks or said - theirs
    assert "matching" not in marks or said & theirs
    assert bool({"matching", "unverified", "opposite"} & marks) == bool(said)
    assert ("changed" in marks) == bool(first is not None and said - statements(first))


@given(REPORTS)
def test_a_text_says_all_that_its_commitment_says(report: str):
    anchor = extract_anchor(report).as_dict()
    named = {(finding, polarity) for polarity, findings in anchor.items() for finding in findings}
    assert named <= statements(report)


def test_a_report_against_the_commitment_before_it():
    report = "There is a small pleural effusion. No pneumothorax; possible edema, unchanged. The hila are normal."
    commitment = Anchor.of(positive=["pleural effusion"], negative=["pneumothorax", "fracture"], uncertain=[])
    assert committed(commitment) - statements(report) == {("fracture", "negative")}
    found = {span.text: span for span in spans(report, "commitment", committed(commitment)) if span.marks}
    assert {text: list(span.marks) for text, span in found.items()} == {
        "effusion": ["matching"],
        "No pneumothorax": ["matching"],
        "possible edema": ["unverified"],
        "unchanged": ["longitudinal"],  # a commitment says nothing of comparison
    }
    assert found["possible edema"].tooltip == "edema: uncertain; not in the commitment"
    assert found["effusion"].tooltip == "pleural effusion: positive; in the commitment"
    turned = spans(report, "commitment", committed(Anchor.of(negative=["pleural effusion"])))
    assert [span.marks for span in turned if span.text == "effusion"] == [["unverified", "contradicts"]]
    alone = spans(report, "commitment", None)
    assert [list(span.marks) for span in alone if span.marks] == [["longitudinal"]]
    assert "".join(span.text for span in alone) == report


@pytest.mark.parametrize(("one", "other", "same"), listed_cases(__file__, "directions"))
def test_wording_of_one_direction_is_the_same_whatever_its_form(one: str, other: str, same: bool):
    kinds = [{rule for rule, kind in statements(text) if kind == "longitudinal"} for text in (one, other)]
    assert all(kinds) and (kinds[0] == kinds[1]) is same


@pytest.mark.parametrize(("report", "expected"), listed_cases(__file__, "contradictions"))
@pytest.mark.parametrize("against", ["reference", "commitment"])
def test_what_the_reports_own_commitment_says_otherwise_is_marked(report: str, expected: list, against: Any):
    own = committed(Anchor.of(positive=["pneumothorax"], negative=["pleural effusion"]))
    other, commitment = (own, None) if against == "commitment" else (statements("small effusion ."), own)
    found = [span for span in spans(report, against, other, None, commitment) if "contradicts" in span.marks]
    assert sorted({span.text for span in found}) == expected
    assert all("the commitment says the opposite" in span.tooltip for span in found)


@pytest.mark.parametrize(("report", "other", "turned"), listed_cases(__file__, "sides"))
def test_a_finding_on_the_other_side_is_marked(report: str, other: str, turned: bool):
    found = [s for s in spans(report, "reference", statements(other), other_sides=sides(other)) if "aside" in s.marks]
    assert len(found) == turned
    assert all(list(s.marks) == ["matching", "aside"] and "the other side there" in s.tooltip for s in found)
    assert not any("aside" in span.marks for span in spans(report, "reference", statements(other)))
