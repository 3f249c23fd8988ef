"""The cleaners: the oddities of upstream's, and equality with references written from their descriptions."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pacer.config.corpus import Cleaner
from pacer.data.cleaning import CLEANERS, clean_report, clean_report_iu_xray


def reference(text: str) -> str:
    """The steps of the description in their order, with regular expressions."""
    text = text.replace("\n", " ")
    for pair, single, passes in (("__", "_", 7), ("  ", " ", 6), ("..", ".", 8)):
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


def test_versions_by_name() -> None:
    assert dict(CLEANERS) == {"upstream": clean_report, "iu_xray": clean_report_iu_xray}
    assert set(CLEANERS) == set(get_args(Cleaner))


# --- upstream ---


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("Normal heart size.", "normal heart size ."),
        ("No effusion. No edema", "no effusion . no edema ."),
        ("line\nbreak", "line break ."),
        ("end.\nNext", "end . next ."),
        ("a\r\nb\tc", "a\r b\tc ."),
        ("a" + "_" * 129 + "b", "ab ."),  # what is left is deleted later in any case
        ("x " + "_" * 128 + " y", "x  y ."),
        ("a" + " " * 64 + "b", "a b ."),
        ("a" + " " * 65 + "b", "a  b ."),
        ("a" + "." * 256 + " b", "a . b ."),
        ("1" + "." * 129 + " b c", "b c ."),  # shrunk to "1. ", which is deleted
        ("1" + "." * 257 + " b c", "1 . b c ."),
        ("a... b.. c", "a . b . c ."),
        ("1. Clear.", "clear ."),
        ("in 2021. Follow up", "in 202follow up ."),
        ("Level 11. 5 mm", "level 15 mm ."),
        ("1. A. 2. B. 3. C. 4. D. 5. E.", "a . b . c . d . e ."),
        ("see 3. below", "see . below ."),
        ("a 2. b", "a . b ."),
        ("a 3 2. b", "a . b ."),  # a removal can make a new mark
        ("a. 6. b", "a . 6 . b ."),
        ("a. 10. b", "a . 10 . b ."),
        ("Heart: normal", "heart : normal ."),
        ("at 9:30", "at 9 :30 ."),
        ("A 1.2 cm nodule", "a 12 cm nodule ."),
        ("NG tube/OG tube", "ng tubeog tube ."),
        ("and\\or", "andor ."),
        ("the ___ lobe", "the  lobe ."),
        ("a. ... b", "a .  . b ."),
        (". . ", " .  ."),
        ("s", "s ."),
        ("", " ."),
        ("   ", " ."),
        ("_" * 128, " ."),
        ("heart : normal .", "heart  : normal  ."),  # twice is not once
        ('it\'s "so" (x) [y] {z} a,b?c;d*e!f%g^h&i+j', "its so x y z abcdefghij ."),
        ("<3 = @ - > # $ ~ | `", "<3 = @ - > # $ ~ | ` ."),
        ("Ödem – “klein” 1½ ΑΣ", "ödem – “klein” 1½ ας ."),
        ("( a )", " a  ."),  # stripped before the brackets go
    ],
)
def test_upstream(raw: str, cleaned: str) -> None:
    assert clean_report(raw) == cleaned


_MARKS = ["1. ", " 2. ", ". 3. ", " 4. ", "5. ", "__", "..", "  ", ". ", ":", " dr. ", "9:30", "1.2", ".5"]
_PIECES = st.sampled_from([*_MARKS, *"\n\t\"/\\'AbΣİ7_23\0\x1c\ud800;?,)(%"])
_ANY = st.one_of(
    st.text(st.characters(exclude_categories=())),  # surrogates and control characters included
    st.lists(_PIECES, max_size=40).map("".join),
    st.lists(st.tuples(st.sampled_from(" ._1\n\0"), st.integers(1, 200)).map(lambda run: run[0] * run[1])).map("".join),
)


@given(_ANY)
@example("." * 300)
@example("_" * 300)
@example("ΑΣ. ΑΣ")
@example("a. \0 b.")
def test_upstream_equals_reference(text: str) -> None:
    assert clean_report(text) == reference(text)


# --- iu_xray ---


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("Heart: normal. 2. No edema.", "heart normal . no edema ."),
        ("at 9:30", "at 930 ."),  # a colon joins, as a slash does
        ("<3 = @ [x] ; > # $ ~ | ` -", "3   x   # $ ~ | ` - ."),  # the range deletes < = > @ ; and keeps the hyphen
        ("XXXX ___ x", "xxxx  x ."),
        ("a  b", "a  b ."),  # blanks are not collapsed
        ("clear.\nNo edema", "clear\nno edema ."),  # a line break is no blank, so no sentence ends there
        ("1" + "." * 8 + " b c", "b c ."),
        ("1" + "." * 9 + " b c", "1 . b c ."),  # three passes leave two periods, which is no mark of enumeration
        ("", " ."),
    ],
)
def test_iu_xray(raw: str, cleaned: str) -> None:
    assert clean_report_iu_xray(raw) == cleaned
