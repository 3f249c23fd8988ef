"""Patterns are found where a search for each of them alone finds them: no look-up keeps a row from its text."""

import re
from collections.abc import Sequence

from hypothesis import given

from pacer.commitments.rules.matching import Match, Patterns, literals
from pacer.commitments.rules.segments import located_segments
from pacer.commitments.rules.table import CUES, NAMES, Row
from tests.unit.commitments.rules.test_rules import TEXTS


def plain_matches(patterns: Sequence[Row], text: str) -> list[Match]:
    """Every pattern searched for in the text; of overlapping matches the earlier one, then the earlier pattern."""
    padded, matches = f" {text}", []
    for rank, pattern in enumerate(patterns):
        for match in re.finditer(f"(?:{pattern.words})" if pattern.anywhere else f" (?:{pattern.words})", padded):
            start = match.start() if padded[match.start()] == " " else match.start() - 1
            matches.append((start, rank, match.end() - 1))
    free, chosen = 0, []
    for start, rank, end in sorted(matches):
        if start >= free:
            chosen.append(Match(start, end, patterns[rank]))
            free = end
    return chosen


TABLES = [(patterns, Patterns(patterns)) for patterns in (NAMES, CUES)]


def assert_found(report: str) -> None:
    """Both tables of patterns in every statement of the report."""
    for words, _ in located_segments(report):
        segment = " ".join(words)
        for patterns, fast in TABLES:
            assert fast.find(segment, words) == plain_matches(patterns, segment), segment


@given(text=TEXTS)
def test_any_text(text: str) -> None:
    assert_found(text)


def test_literals() -> None:
    """Pieces of words of which every match has one of each set; none where a match may lack them all."""
    assert literals(r"(?:no|without) (?:evidence of )?effusions?") == [{"no", "without"}, {"effusion"}]
    assert literals(r"possibl[ey]|maybe") == [{"possibl", "maybe"}]
    assert literals(r"(?:the )?\w+") == [frozenset()]


def test_earlier_start_then_earlier_row_wins() -> None:
    one, two, three, four = (Row("names", words, "", "") for words in ("b c", "b", "c d", "d"))
    words = ["a", "b", "c", "d"]
    found = Patterns([one, two, three._replace(anywhere=True), four]).find(" ".join(words), words)
    assert found == [Match(2, 5, one), Match(6, 7, four)]
