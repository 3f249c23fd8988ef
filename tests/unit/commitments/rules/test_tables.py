"""Every row of the tables by its own example, with the look-up or without, and the sentences of ``sentences.tsv``."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given

from pacer.commitments.rules.extract import extract_anchor, find_mentions
from pacer.commitments.rules.segments import located_segments
from pacer.commitments.rules.table import CUES, NAMES, Match, Patterns, Rule, lines, literals
from pacer.data.cleaning import clean_report
from tests.support.sentences import SENTENCES, Sentence, anchor_of
from tests.unit.commitments.rules.test_rules import TEXTS

#: What the rules still misread, and why.
MISREAD = {
    "Small rounded bilateral axillary densities": "the hedge speaks of artifacts, no finding, and no denial ends it",
    "Blunting of the lateral and posterior left": '"pleural-parenchymal scarring" is no name of the rules',
    "A small right-sided pleural effusion versus thickening.": 'nor is "thickening" alone',
}


@pytest.mark.parametrize("row", [*NAMES, *CUES], ids=lambda row: row.example)
def test_every_row_reads_its_example(row: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example says what the row's reading says, and the row itself is found in it."""
    assert extract_anchor(row.example) == anchor_of(row.reading)
    found: list[Match] = []
    find = Patterns.find
    monkeypatch.setattr(Patterns, "find", lambda *text: found.extend(find(*text)) or find(*text))
    find_mentions(row.example)
    assert any(match.row is row for match in found)


@pytest.mark.parametrize("row", lines("markup.tsv"), ids=lambda row: row["example"])
def test_every_markup_reads_its_example(row: dict[str, str]) -> None:
    assert extract_anchor(row["example"]) == anchor_of(row["reading"])


@pytest.mark.parametrize("row", lines("abbreviations.tsv"), ids=lambda row: row["short"])
def test_every_abbreviation_reads_its_example(row: dict[str, str]) -> None:
    """So does each other spelling in its place."""
    spellings = row["short"].split(", ")
    written = re.compile("|".join(map(re.escape, sorted(spellings, reverse=True))), re.IGNORECASE)
    assert written.search(row["example"])
    for short in spellings:
        assert extract_anchor(written.sub(short, row["example"])) == anchor_of(row["reading"]), short


@pytest.mark.parametrize("row", CUES, ids=lambda row: row.example)
def test_a_cue_says_how_far_it_reaches(row: Rule) -> None:
    assert bool(row.side) == any(row.reach) == (row.says in SAYS)


SAYS = ("negative", "uncertain", "hint", "silent", "instead")


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda sentence: f"{sentence.kind}: {sentence.text}"[:90])
def test_sentences(sentence: Sentence) -> None:
    misread = any(sentence.text.startswith(beginning) for beginning in MISREAD)
    glued = re.search(r"\.[A-Z]", sentence.text)  # the cleaner joins what no blank parts
    for text in (sentence.text, clean_report(sentence.text)) if sentence.cleaned and not glued else (sentence.text,):
        assert (extract_anchor(text) == anchor_of(sentence.reading)) != misread, text


def plain_matches(patterns: Sequence[Rule], text: str) -> list[Match]:
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
    one, two, three, four = (Rule("names", words, "", "") for words in ("b c", "b", "c d", "d"))
    words = ["a", "b", "c", "d"]
    found = Patterns([one, two, three._replace(anywhere=True), four]).find(" ".join(words), words)
    assert found == [Match(2, 5, one), Match(6, 7, four)]
