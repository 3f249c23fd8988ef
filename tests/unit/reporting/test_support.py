"""What supports a statement: pieces make up the report, and their colours follow from what the two texts say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.commitments.rules.extract import extract_anchor
from pacer.reporting.support import pieces, statements

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


def coloured(report: str, side, other: str, first: str | None = None) -> dict[str, tuple]:
    known = None if first is None else statements(first)
    found = pieces(report, side, statements(other), known)
    return {piece.text: (piece.support, piece.changed) for piece in found if piece.support}


def test_the_three_colours():
    reference = "small pleural effusion . no evidence of pneumothorax . cardiomegaly ."
    generated = "no pleural effusion . there is no pneumothorax . a picc ends in the svc ."
    assert coloured(generated, "generated", reference) == {
        "no pleural effusion": ("unverified", False),
        "no pneumothorax": ("matching", False),
        "picc": ("unverified", False),
    }
    assert coloured(reference, "reference", generated) == {
        "effusion": ("reference-only", False),
        "no evidence of pneumothorax": ("matching", False),
        "cardiomegaly": ("reference-only", False),
    }


def test_a_cue_is_taken_along_unless_another_mention_stands_between():
    found = coloured("no pneumothorax , effusion or consolidation .", "generated", "no effusion .")
    assert found == {
        "no pneumothorax": ("unverified", False),
        "effusion": ("matching", False),
        "consolidation": ("unverified", False),
    }


def test_what_the_first_context_does_not_say_is_changed():
    report = "no pneumothorax . small pleural effusion ."
    assert coloured(report, "generated", report, "no pneumothorax .") == {
        "no pneumothorax": ("matching", False),
        "effusion": ("matching", True),
    }


@given(REPORTS, REPORTS, st.none() | REPORTS)
def test_pieces_are_the_report_and_agree_with_the_other_side(report, other, first):
    said, theirs = statements(report), statements(other)
    known = None if first is None else statements(first)
    found = pieces(report, "generated", theirs, known)
    assert "".join(piece.text for piece in found) == report
    assert {piece.support for piece in found} <= {None, "matching", "unverified"}
    if said <= theirs:
        assert all(piece.support != "unverified" for piece in found)
    if not said & theirs:
        assert all(piece.support != "matching" for piece in found)
    assert any(piece.support for piece in found) == bool(said)
    assert any(piece.changed for piece in found) == bool(known is not None and said - known)


@given(REPORTS)
def test_a_text_says_all_that_its_commitment_says(report):
    anchor = extract_anchor(report).as_dict()
    named = {(finding, polarity) for polarity, findings in anchor.items() for finding in findings}
    assert named <= statements(report)


@pytest.mark.parametrize("side", ["reference", "generated"])
def test_a_text_supports_itself(side):
    report = " ".join(SENTENCES)
    found = pieces(report, side, statements(report))
    assert {piece.support for piece in found} == {None, "matching"}
    assert any("pleural effusion: negative; in both reports" in piece.about for piece in found)


def test_wording_of_comparison_is_a_phrase_of_its_own_that_rule_and_direction_support():
    """The paper's Figure 2: a line was inserted, not pulled back."""
    reference = "as compared with the previous radiograph , a new right picc line has been inserted ."
    generated = "as compared with the prior study , the picc line has been pulled back , effusion is unchanged ."
    found = {piece.text: piece.classes for piece in pieces(generated, "generated", statements(reference))}
    assert found["compared"] == found["prior study"] == "matching longitudinal" and found["picc"] == "matching"
    assert found["has been pulled"] == found["unchanged"] == "unverified longitudinal"
    first = statements("compared with before , no picc .")
    alone = {piece.text: piece.classes for piece in pieces(reference, "reference", statements(generated), first)}
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
