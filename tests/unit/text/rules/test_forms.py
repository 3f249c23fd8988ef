"""What the rules do with whole texts, by ``forms.yaml``."""

import re
import textwrap
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pacer.core.anchor import POLARITIES
from pacer.core.io import yaml_beside
from pacer.text.cleaning.cleaners import clean_report
from pacer.text.rules import extract_anchor, find_mentions, read_attributes
from pacer.text.rules.layout import plain
from pacer.text.rules.tables import own_table
from tests.support.sentences import anchor_of
from tests.unit.text.rules.test_reading import CASES as READING
from tests.unit.text.rules.test_reading import SENTENCES

CASES: dict[str, Any] = yaml_beside(__file__, "forms.yaml")
KINDS = ("forms", "sections", "layout", "conventions")
EXAMPLES = [row.example for name in ("names", "cues") for row in own_table(name)]
TEXTS = st.one_of(
    st.lists(st.sampled_from(EXAMPLES + [text for text, _ in CASES["forms"]]), max_size=4).map(
        "\n".join
    ),
    st.lists(st.sampled_from([*READING["words"].split(), "\n", "\n\n"]), max_size=30).map(" ".join),
    st.lists(st.sampled_from([sentence.text for sentence in SENTENCES]), max_size=4).map(" ".join),
    st.text(alphabet="no effusion.İß\n?;/-5,()ﬁ|=:•½☐✗<>&[]'\"", max_size=60),
)


@pytest.mark.parametrize(("text", "reading"), [case for kind in KINDS for case in CASES[kind]])
def test_readings(text: str, reading: str) -> None:
    assert extract_anchor(text) == anchor_of(reading)


@pytest.mark.parametrize(("text", "expected"), CASES["attributes"])
def test_attributes(text: str, expected: dict[str, str]) -> None:
    read = {finding: set().union(*known) for finding, known in read_attributes(text).items()}
    assert read == {finding: set(words.split()) for finding, words in expected.items()}


@given(text=TEXTS)
@example(text="İ. An opacity (the pleura has no effusion) and edema.")
def test_mentions_explain_the_commitment(text: str) -> None:
    mentions = find_mentions(text)
    anchor = extract_anchor(text)
    decided = {(finding, name) for name in POLARITIES for finding in getattr(anchor, name)}
    stated = {(one.finding, one.polarity) for one in mentions if one.polarity}
    assert decided <= stated
    assert {finding for finding, _ in decided} == {finding for finding, _ in stated}
    assert read_attributes(text).keys() <= {*anchor.positive, *anchor.uncertain}


@given(text=TEXTS)
def test_spans_are_places_in_the_report(text: str) -> None:
    assert len(plain(text)) == len(plain(text).lower()) == len(text)
    mentions = find_mentions(text)
    assert list(mentions) == sorted(mentions, key=lambda one: one.start)
    for one in mentions:
        for start, end in (one[:2], one.cue or one[:2]):
            assert text[start:end] == text[start:end].strip() != ""


@pytest.mark.parametrize("text", [row.example for row in own_table("names", "name")])
def test_cleaned_and_wrapped_texts_read_the_same(text: str) -> None:
    report = f"{text} {text} No pneumothorax is seen."
    anchor = extract_anchor(report)
    wrapped = textwrap.fill(report, 45, break_long_words=False, break_on_hyphens=False)
    assert extract_anchor(wrapped) == anchor
    if not re.search("[,/]", text):  # the cleaner joins or deletes what these marks part
        assert extract_anchor(clean_report(report)) == anchor
