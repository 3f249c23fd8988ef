"""The mark of removed words in Open-I's texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.corpus.deidentified import has_marks, without_marks


@pytest.mark.parametrize(
    ("text", "removed", "dropped"),
    [
        ("XXXX-year-old male.", "year-old male.", None),
        ("Normal chest x-XXXX.", "Normal chest x.", None),
        ("Clear. There is XXXX XXXX. Normal.", "Clear. There is. Normal.", "Clear. Normal."),
        ("XXXX. Clear.", "Clear.", "Clear."),
        ("Clear. XXXX XXXX. Normal heart.", "Clear. Normal heart.", "Clear. Normal heart."),
        ("Seen on XXXX, XXXX, and XXXX/XXXX.", "Seen on, and.", None),
        ("Patient's XXXX's film (XXXX) shows (XXXX, left) change.", "Patient's film shows (left) change.", None),
        ("Clear.\n  1. XXXX. 2. Heart normal.", "Clear. 1. 2. Heart normal.", "Clear. Heart normal."),
        (
            "Told to Dr. XXXX at 3 p.m., etc., by phone. Clear.",
            "Told to Dr. at 3 p.m., etc., by phone. Clear.",
            "Clear.",
        ),
        ("A .5 cm XXXX nodule ; stable .", "A .5 cm nodule; stable.", None),
        ("XXXX.", None, None),
        ("XXXXXXXX, XXXX!", None, None),
    ],
)
def test_marks(text: str, removed: str | None, dropped: str | None) -> None:
    assert without_marks(text, "keep") == text
    assert without_marks(text, "remove") == removed
    assert without_marks(text, "drop_sentence") == dropped


@given(st.text("aX .,;:!?()-/'1\n", max_size=40))
def test_no_mark_stays(text: str) -> None:
    for how in ("remove", "drop_sentence"):
        left = without_marks(text + " XXXX", how)
        assert left is None or ("XXXX" not in left and left == left.strip())


@pytest.mark.parametrize("text", ["XXXX", "a XXXX-year-old", "x-XXXXXX."])
def test_marks_are_found(text: str) -> None:
    assert has_marks(text)


@pytest.mark.parametrize("text", ["", "xxxx", "XXX", "X X X X", "Clear."])
def test_what_is_no_mark(text: str) -> None:
    assert not has_marks(text)
    assert without_marks(f" {text} a", "keep") == f" {text} a"
