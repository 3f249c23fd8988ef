"""The paper's own rules: its cues, its window, and our words for the other findings."""

import pytest

from pacer.core.anchor import Anchor
from pacer.core.findings import FINDINGS
from pacer.text.rules.paper import WINDOW, WORDS, extract_paper_anchor
from tests.support.cases import listed_cases
from tests.support.sentences import anchor_of


@pytest.mark.parametrize(("text", "reading"), listed_cases(__file__, "readings"))
def test_readings(text: str, reading: str) -> None:
    assert extract_paper_anchor(text) == anchor_of(reading)
    assert extract_paper_anchor(f"{text.upper()} Lungs\n are  clear.") == anchor_of(reading)


def test_our_words_are_few_and_plain() -> None:
    words = [word for of_finding in WORDS.values() for word in of_finding]
    assert len(words) <= 40 and all(word.replace(" ", "").isalpha() for word in words)
    assert {*WORDS, "support devices"} == {*FINDINGS}


@pytest.mark.parametrize(
    ("finding", "word"), [(finding, word) for finding, words in WORDS.items() for word in words]
)
def test_every_word_names_its_finding(finding: str, word: str) -> None:
    assert finding in extract_paper_anchor(f"There is {word}.").positive
    assert finding in extract_paper_anchor(f"No {word}.").negative
    assert finding in extract_paper_anchor(f"Possible {word}.").uncertain
    assert extract_paper_anchor(f"There is x{word}.").polarity(finding) is None


def test_a_negation_counts_within_the_window() -> None:
    for opening, closing in (("No ", " edema."), ("Edema ", " absent.")):
        cue = len((opening + closing).lower().replace("edema", "").strip("."))
        filled = "x" * (WINDOW - cue)
        assert extract_paper_anchor(f"{opening}{filled}{closing}") == Anchor(negative=("edema",))
        assert extract_paper_anchor(f"{opening}x{filled}{closing}") == Anchor(positive=("edema",))
