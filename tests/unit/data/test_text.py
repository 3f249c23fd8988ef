"""The cleaners: the oddities of upstream's, one by one."""

from __future__ import annotations

from typing import get_args

import pytest

from pacer.config.corpus import Cleaner
from pacer.data.cleaning import CLEANERS, changed_number, clean_report, clean_report_decimals, clean_report_iu_xray


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


@pytest.mark.parametrize(
    ("raw", "cleaned", "changed"),
    [
        ("Tip 2.5 cm above the carina.", "tip 2.5 cm above the carina .", "2.5"),
        ("A 0.8 x 1.2 cm nodule.", "a 0.8 x 1.2 cm nodule .", "0.8"),
        ("Of 2-3 mm, 2–3 cm.", "of 2-3 mm 2–3 cm .", None),
        ("1/2 of the lung, 5/6/2019; 2,5 cm (.5 cm)", "1/2 of the lung 5/6/2019 2,5 cm .5 cm .", "1/2"),
        ("Heart: normal at 9:30", "heart : normal at 9:30 .", None),
        ("Measures 2.5.", "measures 2.5 .", "2.5"),
        ("50% of 2*3 and 10^3", "50% of 2*3 and 10^3 .", "2"),
        ("1. Clear lungs. 2. Heart size is normal.", "clear lungs . heart size is normal .", None),
        ("1. No edema 2. Clear", "no edema . clear .", None),
        ("1. no edema 2. clear", "no edema . clear .", None),
        ("1) Clear\n2) Normal\n10) Large", "clear . normal . large .", None),
        ("Impression: 1. Clear. 2. Normal", "impression : clear . normal .", None),
        ("A. 6. B. 7. C", "a . b . c .", None),
        ("a.2.No effusion", "a . no effusion .", None),
        ("Clear in 2021. Follow up.", "clear in 2021 . follow up .", "2021"),
        ("Fracture of rib 4. No pneumothorax.", "fracture of rib 4 . no pneumothorax .", "4"),
        ("Grade: 2. Stable.", "grade : 2 . stable .", "2"),
        ("Level 11. 5 mm", "level 11 . 5 mm .", "11"),
        ("no edema.2.5 cm nodule", "no edema . 2.5 cm nodule .", "2.5"),
        ("NG tube/OG tube's tip (good) [x] the ___ lobe", "ng tubeog tubes tip good x the lobe .", None),
        ("a... b.. c", "a . b . c .", None),
        ("heart : normal .", "heart : normal .", None),
        ("", " .", None),
    ],
)
def test_decimals(raw: str, cleaned: str, changed: str | None) -> None:
    """The last value is the first number that upstream's cleaner changes; this one changes none, also if used twice."""
    assert clean_report_decimals(raw) == clean_report_decimals(cleaned) == cleaned
    assert changed_number(raw, cleaned) is None
    assert changed_number(raw, clean_report(raw)) == changed
    assert set(CLEANERS) == set(get_args(Cleaner))
