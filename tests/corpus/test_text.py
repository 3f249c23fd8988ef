"""The cleaner: every oddity of upstream's, and equality with a reference written from its description."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pacer.corpus.text import clean_report


def reference(text: str) -> str:
    """The steps of FACTS in the order in which they are described there, with regular expressions."""
    text = text.replace("\n", " ")
    for pair, single, passes in (("__", "_", 7), ("  ", " ", 6), ("..", ".", 7)):
        for _ in range(passes):
            text = re.sub(re.escape(pair), single, text)
    text = re.sub(r"1\. ", "", text)
    for lead in (r"\. ", " "):
        for digit in "2345":
            text = re.sub(rf"{lead}{digit}\. ", ". ", text)
    text = re.sub(":", " :", text)
    parts = []
    for sentence in text.strip().lower().split(". "):
        bare = re.sub(r"""["/\\']""", "", sentence).strip()
        parts.append(re.sub(r"[.,?;*!%^&_+(){}\[\]]", "", bare))
    return " . ".join(parts) + " ."


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("Normal heart size.", "normal heart size ."),
        ("No effusion. No edema.", "no effusion . no edema ."),
        ("in 2021. Follow up", "in 202follow up ."),  # "1. " goes wherever it stands
        ("Level 11. 5 mm", "level 15 mm ."),
        ("1. Clear. 2. Normal. 5. Stable.", "clear . normal . stable ."),
        ("a. 6. b", "a . 6 . b ."),  # six and above stay
        ("see 3. below", "see . below ."),
        ("A 1.2 cm nodule", "a 12 cm nodule ."),
        ("NG tube/OG tube", "ng tubeog tube ."),
        ("Heart: normal", "heart : normal ."),
        ("the ___ lobe", "the  lobe ."),  # the underscore goes after blanks were joined
        ("a. ... b", "a .  . b ."),  # an empty sentence stays
        ("line\nbreak", "line break ."),
        ("it's \"so\" (x) [y] {z} a,b?c;d*e!f%g^h&i+j", "its so x y z abcdefghij ."),
        ("<3 = @ - >", "<3 = @ - > ."),  # these survive
        ("s", "s ."),
        ("", " ."),
        ("_" * 128, " ."),
        ("a" + " " * 65 + "b", "a  b ."),  # 65 blanks are more than six halvings make one of
    ],
)
def test_oddities(raw: str, cleaned: str) -> None:
    assert clean_report(raw) == cleaned


def test_cleaning_twice_is_not_cleaning_once() -> None:
    once = clean_report("Heart: normal.")
    assert once == "heart : normal ."
    assert clean_report(once) == "heart  : normal  ."


_PIECES = st.sampled_from(
    ["1. ", " 2. ", ". 3. ", "__", "..", "  ", ". ", ":", "\n", "\t", '"', "/", "\\", "'", "A", "b", "Σ", "İ", "7", "_"]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.lists(_PIECES, max_size=40).map("".join)))
@example("." * 300)
@example("_" * 300)
@example("ΑΣ. ΑΣ")
def test_equals_reference(text: str) -> None:
    assert clean_report(text) == reference(text)
