"""Texts, ids and paths in users' files: control characters, words for no text, residue of other
formats."""

import os
import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from pacer.tables.hygiene import (
    ABSENT_WORDS,
    PLACEHOLDER,
    RESIDUE,
    fault_of,
    id_fault,
    is_absent,
    path_outside_root,
    rounding_fault,
    without_residue,
)
from tests.support.cases import cases


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_control_characters_and_halves_of_pairs_are_named_by_place(text: str) -> None:
    line_ends = "\t\n\r\x0b\x0c\x85"
    bad = [
        n
        for n, c in enumerate(text, 1)
        if c not in line_ends and unicodedata.category(c) in ("Cc", "Cs")
    ]
    fault = fault_of(text)
    assert (fault is None) == (not bad)
    if fault is not None and "control" in fault:
        assert f"character {bad[0]} is the control character U+{ord(text[bad[0] - 1]):04X}" in fault
    elif fault is not None:
        assert f"character {bad[0]} is the unpaired surrogate" in fault


@given(st.sampled_from(sorted(ABSENT_WORDS)), st.text("abc", min_size=1, max_size=9))
def test_a_text_that_says_more_is_a_text(word: str, more: str) -> None:
    for text in (f"{word} {more}", f"{more}. {word}"):
        assert not is_absent(text)
    others = (
        "",
        " ",
        "4",
        "ß",
        "No effusion.",
        "None acute.",
        "Not read as edema.",
        "[Clear]",
        "#N/A Clear.",
    )
    for text in (*others, "-" * 99 + "no effusion"):
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


@cases(__file__, "absent", "names", "no_ids", "ids", "escaped", "residue", "no_residue")
def test_texts(kind: str, case: str | list[str]) -> None:
    """Of a list: the text, and the fault of an id or what is plain again."""
    text, expected = case if isinstance(case, list) else (case, case)
    if kind == "absent":
        assert is_absent(text)
    elif kind == "names":
        assert re.sub(PLACEHOLDER, "___", f"By {text}.") == "By ___." and is_absent(text)
    elif kind == "ids":
        assert id_fault(text) is None
    elif kind == "no_ids":
        assert expected in str(id_fault(text))
    else:
        assert (
            any(re.search(pattern, text) for pattern in RESIDUE.values()) == (kind != "no_residue")
            and without_residue(text) == expected
        )
