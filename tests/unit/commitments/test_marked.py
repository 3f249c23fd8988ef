"""Real sentences marked by hand: no finding takes the polarity of another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pacer.commitments.rules.extract import extract_anchor
from pacer.data.cleaning import clean_report
from tests.unit.commitments.test_rules import anchor_of

MARKED = Path(__file__).with_name("marked_sentences.tsv")
LINES = [line.split("\t") for line in MARKED.read_text().splitlines() if not line.startswith("#")]

#: What the rules still misread, and why.
MISREAD = {
    "Small rounded bilateral axillary densities": "the hedge speaks of artifacts, no finding, and no denial ends it",
    "Blunting of the lateral and posterior left": '"pleural-parenchymal scarring" is no name of the rules',
    "A small right-sided pleural effusion versus thickening.": 'nor is "thickening" alone',
}


@pytest.mark.parametrize(("source", "marks", "sentence"), LINES)
def test_no_finding_takes_the_polarity_of_another(source: str, marks: str, sentence: str) -> None:
    misread = any(sentence.startswith(beginning) for beginning in MISREAD)
    glued = re.search(r"\.[A-Z]", sentence)  # the cleaner joins what no blank parts
    for text in (sentence,) if glued else (sentence, clean_report(sentence)):
        assert (extract_anchor(text) == anchor_of(marks)) != misread, text
