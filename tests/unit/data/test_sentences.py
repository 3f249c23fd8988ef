"""Texts without some of their sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.data.cleaning import clean_report
from pacer.data.sentences import without_sentences
from pacer.data.wording import compares_with_prior


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The endotracheal tube seen at 9 a.m. has been removed. Clear.", "Clear."),
        ("The film at 9 a.m. ___ is unchanged. Clear.", "Clear."),
        ("Seen at 9 a.m. Unchanged effusion. Clear.", "Seen at 9 a.m. Clear."),
        ("Devices, e.g. Swan-Ganz, are unchanged. Clear.", "Clear."),
        ("A nodule, i.e. that of approx. 3 cm, is stable. Clear.", "Clear."),
        ("St. Jude valve is unchanged. Clear.", "Clear."),
        ("Tube No. 8 is unchanged. Clear.", "Clear."),
        ("Dr. Hill was told of the unchanged tube. Clear.", "Clear."),
        # a long word ends a sentence, whatever follows: no clear finding goes with a stable one
        ("No effusions. heart is stable. Normal bones.", "No effusions. Normal bones."),
        ("Lungs are clear. 5 mm granuloma unchanged.", "Lungs are clear."),
        # without capitals, small letters begin sentences
        ("heart size is unchanged. lungs are clear.", "lungs are clear."),
        # a list loses its numbers
        ("1. Stable cardiomegaly. 2. No edema. 3. No effusion.", "No edema. No effusion."),
        ("1. No effusion 2. Unchanged opacity", "No effusion."),
        ("1. No effusion 2. Unchanged opacity 3. Clear", "No effusion. Clear"),
        ("1) Stable edema.\n2) Clear.", "Clear."),
        ("1. unchanged edema. 2. clear lungs, Dr. Hill.", "clear lungs, Dr. Hill."),
        ("1. Fracture of rib 7. 2. Unchanged edema.", "Fracture of rib 7."),
        ("Fracture of rib 7. Unchanged edema.", "Fracture of rib 7."),
        ("1. No edema.  2. No effusion.", "1. No edema. 2. No effusion."),
        ("1. Unchanged.", None),
    ],
)
def test_whole_sentences_that_compare_are_taken_out(text: str, kept: str | None) -> None:
    assert without_sentences(text, compares_with_prior) == kept


def test_no_number_of_a_list_is_left_in_a_target() -> None:
    for text in ("1. Stable heart. 2. No edema. 3. No mass.", "1. No edema 2. Stable heart 3. No mass"):
        kept = without_sentences(text, compares_with_prior)
        assert kept is not None and clean_report(kept) == "no edema . no mass ."


@given(st.text("aB1 2.)!m\n", max_size=40))
def test_what_is_kept_is_in_the_text(text: str) -> None:
    kept = without_sentences(text, lambda sentence: "B" in sentence)
    assert kept is None or "B" not in kept
    assert sum(map((kept or "").count, "a1m")) <= sum(map(text.count, "a1m"))
