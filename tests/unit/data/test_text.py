"""The cleaners: the oddities of upstream's, one by one."""

from __future__ import annotations

from typing import get_args

import pytest

from pacer.config.corpus import Cleaner
from pacer.data.cleaning import CLEANERS, clean_report, clean_report_iu_xray


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
        ("a 5. b 5. c", "a . b . c ."),
        ("1. a 1. b", "a b ."),
        ("2. 2. 2. ", "2 ."),  # marks behind a period go first, the small numbers before the large
        ("2. 5. 2. ", "2 ."),
        ("2. 5. 2. 2. ", "2 ."),
        ("5. 5. 5. ", "5 ."),
        (" 2. 2. 5. 2. ", " ."),
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
        ('a. " b', "a . b ."),  # and behind the quotes
    ],
)
def test_upstream(raw: str, cleaned: str) -> None:
    assert clean_report(raw) == cleaned


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
