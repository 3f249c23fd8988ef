"""What no text, field or path may be."""

from __future__ import annotations

import os
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.hygiene import (
    ABSENT_WORDS,
    ANY_RESIDUE,
    fault_of,
    id_fault,
    is_absent,
    path_outside_root,
    rounding_fault,
    without_residue,
)


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_control_characters_and_halves_of_pairs_are_named_by_place(text: str) -> None:
    line_ends = "\t\n\r\x0b\x0c\x85"
    bad = [n for n, c in enumerate(text, 1) if c not in line_ends and unicodedata.category(c) in ("Cc", "Cs")]
    fault = fault_of(text)
    assert (fault is None) == (not bad)
    if fault is not None and "control" in fault:
        assert f"character {bad[0]} is the control character U+{ord(text[bad[0] - 1]):04X}" in fault
    elif fault is not None:
        assert f"character {bad[0]} is half of a surrogate pair" in fault


@pytest.mark.parametrize(
    "text",
    [
        *("N/A", "n/a.", "nan", "NaN", "None", "null", "<NA>", "#N/A", "(none)", " Nil ", "NaT"),
        *(" N/A.\u00a0", "\ufeffNone", "\u200bnone", "''", "--", "___", "none" + 40 * " "),
        *("#REF!", "#NAME?", "#DIV/0!", "########", "#Value!"),
    ],
)
def test_words_that_stand_for_no_text(text: str) -> None:
    assert is_absent(text)


@given(st.sampled_from(sorted(ABSENT_WORDS)), st.text("abc", min_size=1, max_size=9))
def test_a_text_that_says_more_is_a_text(word: str, more: str) -> None:
    for text in (f"{word} {more}", f"{more}. {word}"):
        assert not is_absent(text)
    for text in ("", " ", "4", "ß", "No effusion.", "None acute.", "-" * 99 + "no effusion", "#N/A Clear."):
        assert not is_absent(text)


@given(st.lists(st.sampled_from(["..", ".", "a", "b.png"]), min_size=1, max_size=6))
def test_a_path_strays_where_it_ends_outside(parts: list[str]) -> None:
    path = "/".join(parts)
    inside = os.path.normpath(os.path.join("/root", path))
    assert (path_outside_root(path) is None) == (inside == "/root" or inside.startswith("/root/"))
    assert "absolute" in (path_outside_root("/" + path) or "")


def test_paths_of_windows_are_absolute() -> None:
    assert path_outside_root("C:\\images\\a.png") and path_outside_root("\\\\server\\share\\a.png")


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_an_id_is_a_name_that_one_can_see(text: str) -> None:
    usable = text.isprintable() and text == text.strip() != "" and rounding_fault(text) is None
    assert (id_fault(text) is None) == usable


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["x" * 201], "has 201 characters, more than 200"),
        (["a\nb"], "character 2 of an id is U+000A"),
        (["a\x1b[31mb", "a\u202eb"], "which does not show"),
        ([" a"], "no blanks at its ends"),
        ([""], "is not blank"),
        (["1.23457E+12", "1,23457E+12", "1.2e+05", "1E+12", "-1.5e17", "1.2345678901234568e+17"], "has rounded"),
        (["9007199254740992.0", "1.E+12"], "has rounded"),
        (["#N/A", "#REF!", "#NAME?", "#DIV/0!", "########", "#Value!"], "error that a spreadsheet shows"),
    ],
)
def test_texts_that_are_no_ids(texts: list[str], why: str) -> None:
    for text in texts:
        assert why in str(id_fault(text))


@pytest.mark.parametrize(
    "text",
    [
        *("2019/0012", "../../x", "Müller 7", "#N/A1", "#7"),  # no path is made of them
        *("101.0", "12e45", "1E5", "3e-4", "1.2.840.10008", "9007199254740993", "9007199254740991.0"),
    ],
)
def test_ids_that_only_look_wrong(text: str) -> None:
    assert id_fault(text) is None


#: Texts with what another format escaped, and as they were.
ESCAPED = {
    "Heart &lt; 1/2&#x0D; Lungs&nbsp;clear.&#160;Ok_x000D_": "Heart < 1/2\n Lungs clear. Ok\n",
    "&amp;lt; 5 mm; a &amp; b &#39;c&#39;": "< 5 mm; a & b 'c'",
    "No effusion._x000D_\nHeart": "No effusion.\n\nHeart",
    "_xD83D__xDE00_ _x005F_x000D_": "\U0001f600 _x000D_",
    "No effusion&nbsp or edema &lt 3 cm": "No effusion  or edema < 3 cm",
    "\u200eLungs\u200f \u202aclear\u202c": "Lungs clear",
    "pneumo\u00adthorax, non\u2011calcified, 3\u00a0cm\u202fwide\u200b": "pneumothorax, non-calcified, 3 cm wide",
}
#: What may be residue and stays, because it can be text.
KEPT = (
    *("a.<br/>b", "<BR>", "</p>", '<div class="x">', "\\nHeart", "clear.\\r\\n2. Lungs", "clear\\n", "<!-- x -->"),
    *("clear\\.br\\Heart", "a \\T\\ b", "3\\u00a0cm", "clear.\\x0d"),
    *("doesn\u00e2\u20ac\u2122t", "3\u00c2\u00b0", "caf\ufffd"),
)
NO_RESIDUE = (
    *("< 5 mm", "R&D; a & b", "T1\\n2", "a\\b", "C:\\new", "_x00_ ___ _x000", "1 < x > 0", "<3>", "AT&TX", "&ltx"),
    *("a\\.b", "S\u00c3O PAULO"),
)


@pytest.mark.parametrize("text", [*ESCAPED, *KEPT, *NO_RESIDUE])
def test_residue_of_another_format_is_found_and_what_it_escaped_is_plain_again(text: str) -> None:
    assert (re.search(ANY_RESIDUE, text) is None) == (text in NO_RESIDUE)
    assert without_residue(text) == ESCAPED.get(text, text)
