"""Doubt: sentences that should and should not be in doubt, and what doubt must not change."""

import pytest

from pacer.commitments.anchor import POLARITIES, Anchor, render_anchor
from pacer.commitments.rules import polarity
from pacer.commitments.rules.doubt import WEIGHTS, features
from pacer.commitments.rules.extract import (
    extract_anchor,
    find_mentions,
    read_report,
    segment_readings,
)
from tests.unit.commitments.rules.test_rules import SENTENCES

TEXT = "no edema but large effusion zzz effusion"
WORDS = ("^", "no", "but", "large", "zzz", "$", "idle clause")


def test_features() -> None:
    mentions = [mention for mention, _ in segment_readings(TEXT)]
    assert features(TEXT, mentions, ["negative", "positive", None], {"clause"}) == {
        "segment": {"any", "1 new"},
        "negative": {*WORDS, "= edema", "no _", "_ but", ", positive"},
        "positive": {*WORDS, "= pleural effusion", "large _", "_ zzz", ", unstated"},
        "unstated": {*WORDS, "= pleural effusion", "zzz _", "_ $", "two states"},
    }


def test_the_table_is_small() -> None:
    assert WEIGHTS.keys() <= {"segment", "unstated", *POLARITIES}
    assert 0 < sum(map(len, WEIGHTS.values())) < 400


@pytest.mark.parametrize(
    ("text", "doubtful"),
    [
        # nothing beside the finding, or words that were seen without effect
        ("Large left pleural effusion.", ()),
        ("No focal consolidation, pleural effusion or pneumothorax.", ()),
        ("Possible pneumonia at the right base.", ()),
        ("The effusion is not loculated.", ()),
        ("The patient had a fall. Fracture of the left clavicle near its crossing.", ()),
        # words that can turn a statement
        ("Any effusion would have layered out by now.", ("pleural effusion",)),
        ("The pneumothorax came and went within two days.", ("pneumothorax",)),
        ("We were wrong to call this an effusion.", ("pleural effusion",)),
        # a denial that belongs to nothing
        ("Pneumonia, which the history made us expect, the film does not.", ("pneumonia",)),
    ],
)
def test_doubt(text: str, doubtful: tuple[str, ...]) -> None:
    anchor = extract_anchor(text)
    assert anchor.doubtful == doubtful
    mentioned = {mention.finding for mention in find_mentions(text) if mention.doubtful}
    assert mentioned <= {*doubtful}


def test_another_sentence_without_doubt_decides() -> None:
    text = "The effusion is out of the picture by now. Left effusion."
    assert [mention.doubtful for mention in find_mentions(text)] == [True, False]
    assert extract_anchor(text).doubtful == ()


def test_doubt_is_no_part_of_a_commitment() -> None:
    anchor = extract_anchor("Any effusion would have layered out by now.")
    plain = Anchor.of(anchor.positive, anchor.negative, anchor.uncertain)
    assert anchor.doubtful and not plain.doubtful
    assert anchor == plain and hash(anchor) == hash(plain)
    assert anchor.as_dict() == plain.as_dict() and render_anchor(anchor) == render_anchor(plain)


def test_doubt_changes_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {sentence.text for sentence in SENTENCES}
    read = {text: extract_anchor(text) for text in texts}
    assert 0.02 < sum(bool(anchor.doubtful) for anchor in read.values()) / len(texts) < 0.2
    monkeypatch.setattr(polarity, "is_doubtful", lambda *_: False)
    read_report.cache_clear()
    segment_readings.cache_clear()
    assert {text: extract_anchor(text) for text in texts} == read
    read_report.cache_clear()
    segment_readings.cache_clear()
