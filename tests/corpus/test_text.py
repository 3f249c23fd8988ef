"""The cleaners: every oddity of upstream's by name and equality with a reference written from its description; the
careful one keeps words and numbers whole and is idempotent."""

from __future__ import annotations

import re
from collections import Counter
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pacer.corpus.text.cleaning import CLEANERS, clean_report, clean_report_carefully, clean_report_iu_xray
from pacer.params.corpus import Cleaner


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
    assert dict(CLEANERS) == {
        "upstream": clean_report,
        "iu_xray": clean_report_iu_xray,
        "careful": clean_report_carefully,
    }
    assert set(CLEANERS) == set(get_args(Cleaner))


# --- upstream, oddity by oddity ---


def test_upstream_sentences() -> None:
    assert clean_report("Normal heart size.") == "normal heart size ."
    assert clean_report("No effusion. No edema") == "no effusion . no edema ."


def test_upstream_newline_becomes_a_space() -> None:
    assert clean_report("line\nbreak") == "line break ."
    assert clean_report("end.\nNext") == "end . next ."


def test_upstream_carriage_return_and_tab_stay() -> None:
    assert clean_report("a\r\nb\tc") == "a\r b\tc ."


def test_upstream_underscore_runs_are_shrunk_a_bounded_number_of_times() -> None:
    assert clean_report("a" + "_" * 129 + "b") == "ab ."  # what is left is deleted later in any case
    assert clean_report("x " + "_" * 128 + " y") == "x  y ."


def test_upstream_space_runs_are_shrunk_a_bounded_number_of_times() -> None:
    assert clean_report("a" + " " * 64 + "b") == "a b ."
    assert clean_report("a" + " " * 65 + "b") == "a  b ."


def test_upstream_period_runs_are_shrunk_a_bounded_number_of_times() -> None:
    assert clean_report("a" + "." * 256 + " b") == "a . b ."
    assert clean_report("1" + "." * 129 + " b c") == "b c ."  # shrunk to "1. ", which is deleted
    assert clean_report("1" + "." * 257 + " b c") == "1 . b c ."
    assert clean_report("a... b.. c") == "a . b . c ."


def test_upstream_first_mark_is_deleted_wherever_it_stands() -> None:
    assert clean_report("1. Clear.") == "clear ."
    assert clean_report("in 2021. Follow up") == "in 202follow up ."
    assert clean_report("Level 11. 5 mm") == "level 15 mm ."


def test_upstream_marks_two_to_five_after_a_sentence() -> None:
    assert clean_report("1. A. 2. B. 3. C. 4. D. 5. E.") == "a . b . c . d . e ."


def test_upstream_marks_two_to_five_after_a_space_end_the_sentence() -> None:
    assert clean_report("see 3. below") == "see . below ."
    assert clean_report("a 2. b") == "a . b ."


def test_upstream_removal_can_make_a_new_mark() -> None:
    assert clean_report("a 3 2. b") == reference("a 3 2. b") == "a . b ."


def test_upstream_marks_from_six_on_stay_as_sentences() -> None:
    assert clean_report("a. 6. b") == "a . 6 . b ."
    assert clean_report("a. 10. b") == "a . 10 . b ."


def test_upstream_colon_gets_a_space_before_it() -> None:
    assert clean_report("Heart: normal") == "heart : normal ."
    assert clean_report("at 9:30") == "at 9 :30 ."


def test_upstream_decimals_lose_their_point() -> None:
    assert clean_report("A 1.2 cm nodule") == "a 12 cm nodule ."


def test_upstream_slash_and_backslash_join_words() -> None:
    assert clean_report("NG tube/OG tube") == "ng tubeog tube ."
    assert clean_report("and\\or") == "andor ."


def test_upstream_deidentification_mark_leaves_two_blanks() -> None:
    assert clean_report("the ___ lobe") == "the  lobe ."


def test_upstream_empty_sentences_stay() -> None:
    assert clean_report("a. ... b") == "a .  . b ."
    assert clean_report(". . ") == " .  ."


def test_upstream_sentinel_becomes_a_sentence() -> None:
    assert clean_report("s") == "s ."


def test_upstream_empty_text_becomes_a_period() -> None:
    assert clean_report("") == clean_report("   ") == clean_report("_" * 128) == " ."


def test_upstream_twice_is_not_once() -> None:
    once = clean_report("Heart: normal.")
    assert once == "heart : normal ."
    assert clean_report(once) == "heart  : normal  ."


def test_upstream_deleted_punctuation() -> None:
    assert clean_report('it\'s "so" (x) [y] {z} a,b?c;d*e!f%g^h&i+j') == "its so x y z abcdefghij ."


def test_upstream_surviving_punctuation() -> None:
    assert clean_report("<3 = @ - > # $ ~ | `") == "<3 = @ - > # $ ~ | ` ."


def test_upstream_unicode_is_only_lowered() -> None:
    assert clean_report("Ödem – “klein” 1½ ΑΣ") == "ödem – “klein” 1½ ας ."


def test_upstream_blanks_inside_brackets_stay() -> None:
    assert clean_report("( a )") == " a  ."  # stripped before the brackets go


_PIECES = st.sampled_from(
    [
        "1. ",
        " 2. ",
        ". 3. ",
        " 4. ",
        "5. ",
        "__",
        "..",
        "  ",
        ". ",
        ":",
        "\n",
        "\t",
        '"',
        "/",
        "\\",
        "'",
        "A",
        "b",
        "Σ",
        "İ",
        "7",
        "_",
        "2",
        "3",
        "\0",
        "\x1c",
        "\ud800",
        ";",
        "?",
        ",",
        ")",
        "(",
        "%",
        " dr. ",
        "9:30",
        "1.2",
        ".5",
    ]
)
_ANY = st.one_of(
    st.text(st.characters(exclude_categories=())),  # surrogates and control characters included
    st.lists(_PIECES, max_size=40).map("".join),
    st.lists(st.tuples(st.sampled_from(" ._1\n\0"), st.integers(1, 200)).map(lambda run: run[0] * run[1])).map("".join),
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(_ANY)
@example("." * 300)
@example("_" * 300)
@example("ΑΣ. ΑΣ")
@example("a. \0 b.")
def test_upstream_equals_reference(text: str) -> None:
    assert clean_report(text) == reference(text)


# --- iu_xray ---


def iu_reference(text: str) -> str:
    """R2Gen's rules for IU X-Ray in their order; its class of characters has a range from ``:`` to ``[``."""
    for _ in range(3):
        text = re.sub(r"\.\.", ".", text)
    text = re.sub(r"1\. ", "", text)
    for lead in (r"\. ", " "):
        for digit in "2345":
            text = re.sub(rf"{lead}{digit}\. ", ". ", text)
    parts = []
    for sentence in text.strip().lower().split(". "):
        bare = re.sub(r"""["/\\']""", "", sentence).strip()
        parts.append(re.sub(r"[.,?;*!%^&_+():-\[\]{}]", "", bare))
    return " . ".join(parts) + " ."


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("Heart: normal. 2. No edema.", "heart normal . no edema ."),
        ("at 9:30", "at 930 ."),  # a colon joins, as a slash does
        ("<3 = @ [x] ; > # $ ~ | ` -", "3   x   # $ ~ | ` - ."),  # the range deletes < = > @ ; and keeps the hyphen
        ("XXXX ___ x", "xxxx  x ."),
        ("a  b", "a  b ."),  # blanks are not collapsed
        ("clear.\nNo edema", "clear\nno edema ."),  # a line break is no blank, so no sentence ends there
        ("1" + "." * 9 + " b c", "1 . b c ."),  # three passes leave two periods, which is no mark of enumeration
        ("", " ."),
    ],
)
def test_iu_xray(raw: str, cleaned: str) -> None:
    assert clean_report_iu_xray(raw) == cleaned


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(_ANY)
@example("." * 300)
@example("a. \0 b.")
@example("A-Z: [a]")
def test_iu_xray_equals_reference(text: str) -> None:
    assert clean_report_iu_xray(text) == iu_reference(text)


# --- careful ---


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("Normal heart size. No edema", "normal heart size . no edema ."),
        # enumeration
        ("1. Clear. 2. Normal. 12. Stable.", "clear . normal . stable ."),
        ("1) Clear\n2) Effusion\n3. Edema", "clear . effusion . edema ."),
        ("1.Clear. 2.Normal", "clear . normal ."),
        ("No effusion. 2. Clear", "no effusion . clear ."),
        # numbers
        ("A 1.2 cm nodule, .5 cm deep", "a 1.2 cm nodule .5 cm deep ."),
        ("in 2021. Follow up", "in 2021 . follow up ."),
        ("Comparison to 2019. 2020. Clear", "comparison to 2019 . 2020 . clear ."),
        ("Level 11. 5 mm", "level 11 . 5 mm ."),
        ("see 3. below", "see 3 . below ."),
        ("(grade 3) nodule", "grade 3 nodule ."),
        ("No more than 5.", "no more than 5 ."),
        ("Lesions in total. 5.", "lesions in total . 5 ."),  # enumerates nothing
        ("1,200 ml at T11,12", "1200 ml at t11 12 ."),
        ("at 9:30 on 3/4/2021", "at 9:30 on 3 / 4 / 2021 ."),
        ("a 50% pneumothorax", "a 50% pneumothorax ."),
        # words
        ("NG tube/OG tube", "ng tube / og tube ."),
        ("and\\or", "and / or ."),
        ("Heart:normal", "heart : normal ."),
        ("right,left (lower)lobe", "right left lower lobe ."),
        ("it's", "its ."),
        ("the ___ lobe of Dr. ___", "the lobe of dr ."),
        ("left vs. right", "left vs right ."),
        ("at 5 p.m. Stable", "at 5 pm . stable ."),
        # sentences
        ("clear.No effusion", "clear . no effusion ."),
        ("Effusion? Yes! Small; stable", "effusion . yes . small . stable ."),
        ("possible ?pneumonia", "possible pneumonia ."),
        ("a... b", "a . b ."),
        ('said "clear." No', "said clear . no ."),
        ("line\r\n\r\nbreak\tx\u2028y", "line break x y ."),
        ("<3 = @ - >", "<3 = @ - > ."),
        ("s", "s ."),
        # nothing to read
        ("", ""),
        ("___.", ""),
        (" - . / . ", ""),
        ("\n\n", ""),
    ],
)
def test_careful(raw: str, cleaned: str) -> None:
    assert clean_report_carefully(raw) == cleaned


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(_ANY)
@example("d.r. x")
@example("1. 2. 3.")
@example("5'.5.")
def test_careful_form(text: str) -> None:
    once = clean_report_carefully(text)
    assert clean_report_carefully(once) == once
    assert not re.search(r"_|  |\n|\t", once) and once == once.lstrip()
    if once:
        assert once.endswith(" .") and all(re.search(r"[^\W_]", part) for part in once.removesuffix(" .").split(" . "))
    assert not Counter(filter(str.isdecimal, once)) - Counter(filter(str.isdecimal, text.lower()))


@settings(max_examples=300, deadline=None)
@given(_ANY)
def test_careful_keeps_every_digit_that_is_no_mark(text: str) -> None:
    text = re.sub(r"(?<!\d)(\d{1,2})(?!\d)", r"x\1", text)  # no number of one or two digits stands alone
    text = re.sub(r"[^\W\d_]['‘’]+(?=\d)", "x", text)
    assert Counter(filter(str.isdecimal, clean_report_carefully(text))) == Counter(filter(str.isdecimal, text))


_MARKS = st.sampled_from(["1. ", "2. ", "3) ", "12. ", "\n4. "])
_SENTENCES = st.sampled_from(
    ["Clear. ", "Nodule of 1.2 cm. ", "Since 2021. ", "At T11. ", "5 mm. ", "Grade 3/4; ", "In 7 of 10? ", "Ends.\n"]
)


@given(st.lists(st.tuples(st.one_of(st.just(""), _MARKS), _SENTENCES), min_size=1))
def test_careful_drops_the_marks_and_no_other_digit(items: list[tuple[str, str]]) -> None:
    text = "".join(mark + sentence for mark, sentence in items)
    kept = "".join(sentence for _, sentence in items)
    assert clean_report_carefully(text) == clean_report_carefully(kept)
    assert Counter(filter(str.isdigit, clean_report_carefully(text))) == Counter(filter(str.isdigit, kept))
