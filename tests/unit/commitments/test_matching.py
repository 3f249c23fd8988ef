"""Patterns are found where a search for each of them alone finds them: no stem keeps a pattern from its text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given

from pacer.commitments.rules.cues import CUES
from pacer.commitments.rules.matching import Match, Pattern, Patterns
from pacer.commitments.rules.mentions import MENTIONS
from pacer.commitments.rules.segments import located_segments
from pacer.data.cleaning import clean_report
from pacer.phantom.language import sample_texts
from tests.unit.commitments.test_mentions import TEXTS


def plain_matches(patterns: Sequence[Pattern], text: str) -> list[Match]:
    """Every pattern searched for in the text; of overlapping matches the earlier one, then the earlier pattern."""
    padded, matches = f" {text}", []
    for rank, pattern in enumerate(patterns):
        for match in re.finditer(pattern.expression, padded):
            start = match.start() if padded[match.start()] == " " else match.start() - 1
            matches.append((start, rank, match.end() - 1))
    free, chosen = 0, []
    for start, rank, end in sorted(matches):
        if start >= free:
            chosen.append((start, end, patterns[rank].name))
            free = end
    return chosen


TABLES = [(patterns, Patterns(patterns)) for patterns in (MENTIONS, CUES)]


def assert_found(report: str) -> None:
    """Both tables of patterns in every statement of the report."""
    for segment, _ in located_segments(report):
        for patterns, fast in TABLES:
            assert fast.find(segment, segment.split()) == plain_matches(patterns, segment), segment


@given(text=TEXTS)
def test_any_text(text: str) -> None:
    assert_found(text)


@pytest.mark.parametrize("clean", [str, clean_report])
def test_reports_of_the_phantom(clean) -> None:
    for report in sample_texts(3, 400):
        assert_found(clean(report.text))
