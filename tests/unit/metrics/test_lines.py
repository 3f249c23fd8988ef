from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pacer.metrics.nlg import rouge_rows, single_line


def test_line_breaks_and_tabs_are_blanks_and_doubled_blanks_stay():
    """pycocoevalcap's ROUGE-L parts words at single blanks alone: a line break glues two words into one."""
    for text, line in {
        "no\n effusion  .\n": "no effusion  .",
        "no\teffusion\u2028.": "no effusion .",
        "x  y ": "x  y ",
    }.items():
        assert single_line(text) == line
    glued = "no\neffusion\n."
    assert rouge_rows(["no effusion ."], [glued]) < rouge_rows(["no effusion ."], [single_line(glued)]) == [1.0]


@given(st.text(st.sampled_from("ab  \n\t\r\u2028\x1c\xa0")))
def test_lines_are_joined_without_a_change_of_the_words(text):
    line = single_line(text)
    assert line.split() == text.split()
    assert not any(letter.isspace() and letter != " " for letter in line)
