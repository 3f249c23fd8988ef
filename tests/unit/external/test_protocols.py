from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.external.protocols import last_box, without_repeats


@pytest.mark.parametrize(
    "text, expected, state",
    [
        (r"First \boxed{draft}, then \boxed{the lungs are clear .}", "the lungs are clear .", "closed"),
        (r"\boxed{a {nested {deeply}} box} and words", "a {nested {deeply}} box", "closed"),
        (r"\boxed{{effusion}}", "{effusion}", "closed"),
        (r"\boxed{}", "", "closed"),
        ("no box at all", "", "absent"),
        (r"\boxed{closed} but \boxed{not closed", "", "unclosed"),
        (r"\boxed{ends {too early}", "", "unclosed"),
        ("\\boxed{over\ntwo lines}", "over\ntwo lines", "closed"),
    ],
)
def test_the_last_box_by_brace_depth(text, expected, state):
    assert last_box(text) == (expected, state)


@given(
    st.recursive(
        st.text("ab .", max_size=5),
        lambda inner: st.lists(inner, max_size=3).map(lambda parts: "{" + "".join(parts) + "}"),
        max_leaves=8,
    ),
    st.text(max_size=20),
)
def test_any_balanced_text_comes_back(inside, before):
    assert last_box(f"{before}\\boxed{{{inside}}} and more") == (inside.strip(), "closed")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("no effusion . heart normal . no effusion .", "no effusion . heart normal ."),
        ("No effusion. no  effusion . Heart normal.", "No effusion. Heart normal."),
        ("size 1.2 cm . size 1.2 cm", "size 1.2 cm ."),
        ("one sentence", "one sentence"),
        ("", ""),
    ],
)
def test_sentences_stand_once(text, expected):
    assert without_repeats(text) == expected


@given(st.lists(st.sampled_from(["a b .", "c .", "d?", "no e ."]), max_size=12))
def test_dropping_repeats_again_changes_nothing(sentences):
    once = without_repeats(" ".join(sentences))
    assert without_repeats(once) == once
    assert once == " ".join(dict.fromkeys(sentences))
