"""The rules by ``reading.yaml`` and by ``sentences.tsv``."""

import re
import textwrap
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pacer.core.anchor import POLARITIES, Anchor
from pacer.core.io import yaml_beside
from pacer.text.cleaning.cleaners import clean_report
from pacer.text.rules import extract_anchor, find_mentions
from pacer.text.rules.layout import parts
from tests.support.sentences import anchor_of


class Sentence(NamedTuple):
    """A sentence and its reading; ``cleaned``: the cleaned sentence says the same."""

    source: str
    cleaned: bool
    reading: str
    text: str


def _sentence(line: str) -> Sentence:
    source, text, reading, sentence = line.split("\t")
    return Sentence(source, text == "both", reading, sentence)


SENTENCES = [
    _sentence(line)
    for line in Path(__file__).with_name("sentences.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
CASES: dict[str, Any] = yaml_beside(__file__, "reading.yaml")
SOME = ("pleural effusion", "pneumothorax", "pneumonia", "consolidation", "atelectasis", "fracture")


def said(report: str) -> dict[str, str]:
    """Polarity of the findings that the commitment names."""
    anchor = extract_anchor(report)
    return {finding: name for name in POLARITIES for finding in getattr(anchor, name)}


@pytest.mark.parametrize("finding", CASES["names"])
def test_names(finding: str) -> None:
    for name in CASES["names"][finding]:
        for sentence, polarity in (
            ("There is {}.", "positive"),
            ("No {}.", "negative"),
            ("Possible {}.", "uncertain"),
        ):
            assert said(sentence.format(name)) == {finding: polarity}, name
        assert said(f"Stable {name}.") == {finding: "positive"}, name
        assert said(clean_report(f"Stable {name}.")) == {finding: "positive"}, name


@pytest.mark.parametrize("kind", CASES["cues"])
def test_cues(kind: str) -> None:
    polarity = None if kind == "silent" else kind
    for sentence, finding in product(CASES["cues"][kind], SOME):
        text = sentence.format(finding)
        assert said(text).get(finding) == polarity, text
        assert said(f"{text.upper()}  Lungs\n are  clear.").get(finding) == polarity, text


def test_words_joined_by_the_cleaner() -> None:
    cleaned = clean_report("Bibasilar atelectasis/infiltrate. Pleura: no effusion.")
    assert "atelectasisinfiltrate" in cleaned
    assert extract_anchor(cleaned) == Anchor.of(
        ["atelectasis", "lung opacity"], ["pleural effusion"]
    )


@pytest.mark.parametrize(
    "date", ["03.07.2024", "3.7.24", "2024.07.03", "1.2.840.10008", "10.30.45%"]
)
def test_numbers_with_several_points(date: str) -> None:
    for sentence in ("Compared to {}, the effusion is larger.", "Effusion on {}.", "{}: effusion."):
        assert said(sentence.format(date)) == {"pleural effusion": "positive"}


#: What is read of a text, by kind of case.
READ: dict[str, Callable[[str], Any]] = {
    "orders": lambda text: extract_anchor(text).polarity("pleural effusion"),
    "sentences": lambda text: [" ".join(one.split()) for one, *_ in parts(text)],
}


@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind in READ for case in CASES[kind]])
def test_what_is_read(kind: str, case: list) -> None:
    text, expected = case
    assert READ[kind](text) == expected


@pytest.mark.parametrize(("report", "lines"), CASES["mentions"])
def test_what_is_shown(report: str, lines: list[str]) -> None:
    shown = [
        (report[m.start : m.end], m.finding, m.polarity, m.cue and report[slice(*m.cue)])
        for m in find_mentions(report)
    ]
    assert [", ".join(map(str, line)) for line in shown] == lines


#: What the rules misread, and why.
MISREAD = {
    "Left hydropneumothorax without": "the first mention that is no denial decides",
    "Opacity in the lingula is favored": '"favored" makes the opacity itself uncertain',
    "Blunting of the lateral": '"pleural-parenchymal scarring" is no name of the rules',
    "A small right-sided pleural effusion versus thickening": 'nor is "thickening" alone',
    "Infiltrate is XXXX less XXXX": "the removed words leave no cue before the hedge",
}


@pytest.mark.parametrize("source", dict.fromkeys(sentence.source for sentence in SENTENCES))
def test_sentences(source: str) -> None:
    wrong = []
    for sentence in (sentence for sentence in SENTENCES if sentence.source == source):
        misread = any(sentence.text.startswith(beginning) for beginning in MISREAD)
        texts = [sentence.text]
        if sentence.cleaned and not re.search(r"\.[A-Z]", sentence.text):
            # the cleaner joins what no blank parts
            texts.append(clean_report(sentence.text))
        expected = anchor_of(sentence.reading)
        wrong += [text for text in texts if (extract_anchor(text) == expected) == misread]
    assert wrong == []


@pytest.mark.parametrize("indent", ["", " "])
def test_wrapped_lines_read_the_same(indent: str) -> None:
    """A sentence reads the same where an editor has wrapped it at 40 columns."""
    for text in {sentence.text for sentence in SENTENCES}:
        wrapped = textwrap.fill(text, 40, break_long_words=False, break_on_hyphens=False)
        assert extract_anchor(wrapped.replace("\n", f"\n{indent}")) == extract_anchor(text), wrapped
