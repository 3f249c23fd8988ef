"""What supports a statement: spans make up the report, and their marks follow from what the two texts say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.commitments.anchor import Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.reporting.marks import committed, sides, spans, statements

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


def coloured(report: str, compared_with, other: str, first: str | None = None) -> dict[str, tuple]:
    known = None if first is None else statements(first)
    marked = spans(report, compared_with, statements(other), known)
    return {span.text: (span.support, span.changed) for span in marked if span.support}


def test_the_three_colours():
    reference = "small pleural effusion . no evidence of pneumothorax . cardiomegaly ."
    generated = "no pleural effusion . there is no pneumothorax . a picc ends in the svc ."
    assert coloured(generated, "reference", reference) == {
        "no pleural effusion": ("unverified", False),
        "no pneumothorax": ("matching", False),
        "picc": ("unverified", False),
    }
    assert coloured(reference, "generated", generated) == {
        "effusion": ("reference-only", False),
        "no evidence of pneumothorax": ("matching", False),
        "cardiomegaly": ("reference-only", False),
    }


def test_a_cue_is_taken_along_unless_another_mention_stands_between():
    found = coloured("no pneumothorax , effusion or consolidation .", "reference", "no effusion .")
    assert found == {
        "no pneumothorax": ("unverified", False),
        "effusion": ("matching", False),
        "consolidation": ("unverified", False),
    }


def test_what_the_first_context_does_not_say_is_changed():
    report = "no pneumothorax . small pleural effusion ."
    assert coloured(report, "reference", report, "no pneumothorax .") == {
        "no pneumothorax": ("matching", False),
        "effusion": ("matching", True),
    }


@given(REPORTS, REPORTS, st.none() | REPORTS)
def test_spans_are_the_report_and_agree_with_the_other_text(report, other, first):
    said, theirs = statements(report), statements(other)
    known = None if first is None else statements(first)
    marked = spans(report, "reference", theirs, known)
    assert "".join(span.text for span in marked) == report
    assert {span.support for span in marked} <= {None, "matching", "unverified"}
    if said <= theirs:
        assert all(span.support != "unverified" for span in marked)
    if not said & theirs:
        assert all(span.support != "matching" for span in marked)
    assert any(span.support for span in marked) == bool(said)
    assert any(span.changed for span in marked) == bool(known is not None and said - known)


@given(REPORTS)
def test_a_text_says_all_that_its_commitment_says(report):
    anchor = extract_anchor(report).as_dict()
    named = {(finding, polarity) for polarity, findings in anchor.items() for finding in findings}
    assert named <= statements(report)


@pytest.mark.parametrize("compared_with", ["reference", "generated"])
def test_a_text_supports_itself(compared_with):
    report = " ".join(SENTENCES)
    marked = spans(report, compared_with, statements(report))
    assert {span.support for span in marked} == {None, "matching"}
    assert any("pleural effusion: negative; in both reports" in span.tooltip for span in marked)


def test_a_report_against_the_commitment_before_it():
    report = "There is a small pleural effusion. No pneumothorax; possible edema, unchanged. The hila are normal."
    commitment = Anchor.of(positive=["pleural effusion"], negative=["pneumothorax", "fracture"], uncertain=[])
    assert committed(commitment) - statements(report) == {("fracture", "negative")}
    marked = {span.text: span for span in spans(report, "commitment", committed(commitment)) if span.classes}
    assert {text: span.classes for text, span in marked.items()} == {
        "effusion": "matching",
        "No pneumothorax": "matching",
        "possible edema": "unverified",
        "unchanged": "longitudinal",  # a commitment says nothing of comparison
    }
    assert marked["possible edema"].tooltip == "edema: uncertain; not in the commitment"
    turned = spans(report, "commitment", committed(Anchor.of(negative=["pleural effusion"])))
    assert "unverified" in {span.support for span in turned if span.text == "effusion"}
    alone = spans(report, "commitment", None)
    assert {span.classes for span in alone} == {"", "longitudinal"}
    assert "".join(span.text for span in alone) == report


def test_wording_of_comparison_is_a_phrase_of_its_own_that_rule_and_direction_support():
    """The paper's Figure 2: a line was inserted, not pulled back."""
    reference = "as compared with the previous radiograph , a new right picc line has been inserted ."
    generated = "as compared with the prior study , the picc line has been pulled back , effusion is unchanged ."
    found = {span.text: span.classes for span in spans(generated, "reference", statements(reference))}
    assert found["compared"] == found["prior study"] == "matching longitudinal" and found["picc"] == "matching"
    assert found["has been pulled"] == found["unchanged"] == "unverified longitudinal"
    first = statements("compared with before , no picc .")
    alone = {span.text: span.classes for span in spans(reference, "generated", statements(generated), first)}
    assert alone["compared"] == "matching longitudinal" and alone["picc"] == "matching changed"
    assert alone["new"] == alone["has been inserted"] == "reference-only longitudinal changed"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("effusion has increased .", "increasing effusion .", True),
        ("effusion has decreased .", "increasing effusion .", False),
        ("unchanged effusion .", "no change in the effusion .", True),
        ("effusion is larger .", "effusion is smaller .", False),
        ("stable effusion .", "effusion is stable .", True),
        ("new effusion .", "no new effusion .", False),
        ("the tube has been removed .", "the tube has been replaced by another .", False),
    ],
)
def test_wording_of_one_direction_is_the_same_whatever_its_form(one: str, other: str, same: bool):
    kinds = [{rule for rule, kind in statements(text) if kind == "longitudinal"} for text in (one, other)]
    assert all(kinds) and (kinds[0] == kinds[1]) is same


@pytest.mark.parametrize(
    ("report", "marked"),
    [
        ("no pneumothorax . small effusion .", {"no pneumothorax", "effusion"}),
        ("possible pneumothorax . small effusion .", {"effusion"}),  # uncertain is not the opposite
        ("small pneumothorax . no effusion .", set()),
        ("no pneumothorax . a tiny pneumothorax remains .", set()),  # the report as a whole affirms it
        ("the lungs are clear .", set()),
    ],
)
@pytest.mark.parametrize("against", ["reference", "commitment"])
def test_what_the_reports_own_commitment_says_otherwise_is_marked(report: str, marked: set, against):
    own = committed(Anchor.of(positive=["pneumothorax"], negative=["pleural effusion"]))
    found = spans(report, against, own if against == "commitment" else statements("small effusion ."), commitment=own)
    contradicting = [span for span in found if span.contradicts]
    assert {span.text for span in contradicting} == marked
    assert all(
        "the commitment says the opposite" in span.tooltip and "contradicts" in span.classes for span in contradicting
    )


@pytest.mark.parametrize(
    ("report", "other", "turned"),
    [
        ("small left pleural effusion .", "there is effusion on the right .", True),
        ("small left pleural effusion .", "large Left effusion .", False),
        ("small left pleural effusion .", "bilateral effusions .", False),
        ("small left pleural effusion .", "effusions , right more than left .", False),
        ("small left pleural effusion .", "small pleural effusion .", False),
        ("left lung is clear and there is a right effusion .", "small right effusion , left lung is clear .", False),
        ("no left effusion .", "no right effusion .", False),
    ],
)
def test_a_finding_on_the_other_side_is_marked(report: str, other: str, turned: bool):
    marked = spans(report, "reference", statements(other), other_sides=sides(other))
    assert any(span.aside for span in marked) == turned
    assert all(span.support == "matching" and "other side" in span.tooltip for span in marked if span.aside)
    assert not any(span.aside for span in spans(report, "reference", statements(other)))


def test_sides_of_a_text():
    found = sides("right opacity with a left effusion . no left pneumothorax ; possible pneumonia at both bases")
    assert found == {"lung opacity": {"right"}, "pleural effusion": {"left"}}
