"""Every row of the tables by its own example, and the sentences of ``sentences.tsv``."""

import re

import pytest

from pacer.commitments.rules.extract import extract_anchor, find_mentions
from pacer.commitments.rules.matching import Match, Patterns
from pacer.commitments.rules.table import CUES, NAMES, Row, lines
from pacer.data.cleaning import clean_report
from tests.support.sentences import SENTENCES, Sentence, anchor_of

#: What the rules still misread, and why.
MISREAD = {
    "Small rounded bilateral axillary densities": "the hedge speaks of artifacts, no finding, and no denial ends it",
    "Blunting of the lateral and posterior left": '"pleural-parenchymal scarring" is no name of the rules',
    "A small right-sided pleural effusion versus thickening.": 'nor is "thickening" alone',
}


@pytest.mark.parametrize("row", [*NAMES, *CUES], ids=lambda row: row.example)
def test_every_row_reads_its_example(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_cue_says_how_far_it_reaches(row: Row) -> None:
    assert bool(row.side) == any(row.reach) == (row.says in SAYS)


SAYS = ("negative", "uncertain", "hint", "silent", "instead")


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda sentence: f"{sentence.kind}: {sentence.text}"[:90])
def test_sentences(sentence: Sentence) -> None:
    misread = any(sentence.text.startswith(beginning) for beginning in MISREAD)
    glued = re.search(r"\.[A-Z]", sentence.text)  # the cleaner joins what no blank parts
    for text in (sentence.text, clean_report(sentence.text)) if sentence.cleaned and not glued else (sentence.text,):
        assert (extract_anchor(text) == anchor_of(sentence.reading)) != misread, text
