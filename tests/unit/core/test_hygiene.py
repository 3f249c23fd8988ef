"""What no text, field or path may be."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.hygiene import (
    ABSENT_WORDS,
    ANY_RESIDUE,
    cell,
    fault_of,
    file_name,
    id_fault,
    is_absent,
    path_outside_root,
    rounding_fault,
    without_residue,
)


def test_no_cell_is_a_formula() -> None:
    for text in ('=HYPERLINK("x")', "+1", "-1", "@a", "\t=1"):
        assert cell(text) == f"'{text}"
    assert cell("p10/s5=1.jpg") == "p10/s5=1.jpg"


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_control_characters_and_halves_of_pairs_are_named_by_place(text: str) -> None:
    bad = [n for n, c in enumerate(text, 1) if c not in "\t\n\r" and unicodedata.category(c) in ("Cc", "Cs")]
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
    ],
)
def test_words_that_stand_for_no_text(text: str) -> None:
    assert is_absent(text)


@given(st.sampled_from(sorted(ABSENT_WORDS)), st.text("abc", min_size=1, max_size=9))
def test_a_text_that_says_more_is_a_text(word: str, more: str) -> None:
    for text in (f"{word} {more}", f"{more}. {word}"):
        assert not is_absent(text)
    for text in ("", " ", "4", "ß", "No effusion.", "None acute.", "-" * 99 + "no effusion"):
        assert not is_absent(text)


@given(st.lists(st.sampled_from(["..", ".", "a", "b.png"]), min_size=1, max_size=6))
def test_a_path_strays_where_it_ends_outside(parts: list[str]) -> None:
    path = "/".join(parts)
    inside = os.path.normpath(os.path.join("/root", path))
    assert (path_outside_root(path) is None) == (inside == "/root" or inside.startswith("/root/"))
    assert "absolute" in (path_outside_root("/" + path) or "")


def test_paths_of_windows_are_absolute() -> None:
    assert path_outside_root("C:\\images\\a.png") and path_outside_root("\\\\server\\share\\a.png")


@given(st.text(), st.text())
def test_a_name_of_a_file_stays_where_it_is_put_and_tells_ids_apart(one: str, other: str) -> None:
    name = file_name(one)
    assert PurePosixPath(f"study-{name}.svg").parts == (f"study-{name}.svg",) and len(name) <= 89 and name.isascii()
    assert (name == file_name(other)) == (one == other)


def test_ids_that_could_be_paths_or_endings_are_none_as_names() -> None:
    assert file_name("50347691") == "50347691" and file_name("p10_s5-a") == "p10_s5-a"
    for id_ in ("a/../../x", "..", "/etc/x", "a\\b", "x.html", "a b", "é", "x" * 300):
        assert set(file_name(id_)) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-") and file_name(id_) != id_


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_an_id_is_a_name_that_one_can_see(text: str) -> None:
    usable = text.isprintable() and text == text.strip() != "" and rounding_fault(text) is None
    assert (id_fault(text) is None) == usable


def test_ids_that_are_none() -> None:
    for text, why in (
        ("x" * 201, "has 201 characters, more than 200"),
        ("a\nb", "character 2 of an id is U+000A"),
        ("a\x1b[31mb", "U+001B"),
        ("a\u202eb", "U+202E"),
        (" a", "no blanks at its ends"),
        ("", "is not blank"),
    ):
        assert why in str(id_fault(text))
    assert id_fault("2019/0012") is id_fault("../../x") is id_fault("Müller 7") is None  # no path is made of them


@pytest.mark.parametrize(
    "text",
    [
        "1.23457E+12",
        "1,23457E+12",
        "1.2e+05",
        "1E+12",
        "-1.5e17",
        "1.2345678901234568e+17",
        "9007199254740992.0",
        "1.E+12",
    ],
)
def test_an_id_that_was_rounded_is_none(text: str) -> None:
    assert "has rounded" in str(id_fault(text))


@pytest.mark.parametrize("text", ["#N/A", "#REF!", "#NAME?", "#DIV/0!", "########", "#Value!"])
def test_an_error_of_a_spreadsheet_is_no_id_and_no_text(text: str) -> None:
    assert "error that a spreadsheet shows" in str(id_fault(text))
    assert is_absent(text) and not is_absent(f"{text} Clear.") and id_fault(f"{text}1") is id_fault("#7") is None


@pytest.mark.parametrize(
    "text", ["101.0", "12e45", "1E5", "3e-4", "1.2.840.10008", "9007199254740993", "9007199254740991.0"]
)
def test_ids_that_only_look_rounded(text: str) -> None:
    assert id_fault(text) is None


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Heart &lt; 1/2&#x0D; Lungs&nbsp;clear.&#160;Ok_x000D_", "Heart < 1/2\n Lungs clear. Ok\n"),
        ("&amp;lt; 5 mm; a &amp; b &#39;c&#39;", "< 5 mm; a & b 'c'"),
        ("No effusion._x000D_\nHeart", "No effusion.\n\nHeart"),
        ("_xD83D__xDE00_ _x005F_x000D_", "\U0001f600 _x000D_"),
        ("No effusion&nbsp or edema &lt 3 cm", "No effusion  or edema < 3 cm"),
        ("\u200eLungs\u200f \u202aclear\u202c", "Lungs clear"),
        ("pneumo\u00adthorax, non\u2011calcified, 3\u00a0cm\u202fwide\u200b", "pneumothorax, non-calcified, 3 cm wide"),
    ],
)
def test_what_another_format_escaped_is_plain_again(text: str, plain: str) -> None:
    assert re.search(ANY_RESIDUE, text) and without_residue(text) == plain


@pytest.mark.parametrize(
    "text",
    [
        "< 5 mm",
        "R&D; a & b",
        "T1\\n2",
        "a\\b",
        "C:\\new",
        "_x00_ ___ _x000",
        "1 < x > 0",
        "<3>",
        "AT&TX",
        "&ltx",
        "a\\.b",
        "S\u00c3O PAULO",
    ],
)
def test_texts_without_residue(text: str) -> None:
    assert re.search(ANY_RESIDUE, text) is None and without_residue(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("a.<br/>b", "<BR>", "</p>", '<div class="x">', "\\nHeart", "clear.\\r\\n2. Lungs", "clear\\n", "<!-- x -->"),
        *(
            "clear\\.br\\Heart",
            "a \\T\\ b",
            "3\\u00a0cm",
            "clear.\\x0d",
            "doesn\u00e2\u20ac\u2122t",
            "3\u00c2\u00b0",
            "caf\ufffd",
        ),
    ],
)
def test_tags_and_written_escapes_are_found_and_stay(text: str) -> None:
    assert re.search(ANY_RESIDUE, text) and without_residue(text) == text
