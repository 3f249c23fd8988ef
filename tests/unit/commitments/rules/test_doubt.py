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


def test_features() -> None:
    text = "no edema but large effusion zzz effusion"
    mentions = [reading.mention for reading in segment_readings(text)]
    states = ["negative", "positive", "unstated"]
    effusion = ["= pleural effusion", "two states"]
    assert list(features(text, mentions, states, {"clause"})) == [
        (
            ["^", "no"],
            ["but", "large", "zzz", "$"],
            ["any", "idle clause", "no _", "_ but", ", positive", "= edema"],
        ),
        (
            ["^", "no", "but", "large"],
            ["zzz", "$"],
            ["any", "idle clause", "large _", "_ zzz", ", unstated", *effusion],
        ),
        (
            ["^", "no", "but", "large", "zzz"],
            ["$"],
            ["any", "idle clause", "zzz _", "_ $", *effusion],
        ),
    ]


def test_features_of_a_finding_alone() -> None:
    mentions = [reading.mention for reading in segment_readings("edema")]
    assert list(features("edema", mentions, ["positive"], set())) == [
        (["^"], ["$"], ["any", "^ _ $", "^ _", "_ $", "= edema"])
    ]


def test_every_state_has_weights() -> None:
    assert [*WEIGHTS] == ["unstated", *POLARITIES]
    assert all("any" in own for _, _, own in WEIGHTS.values())
    assert 0 < sum(len(table) for tables in WEIGHTS.values() for table in tables) < 11_000


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
        ("The former effusion leaves a clear angle behind.", ("pleural effusion",)),
        ("The consolidation said to be there is not to be found.", ("consolidation",)),
        # two findings with the states of each other
        ("Gone is the drain, and with it the pneumothorax.", ("pneumothorax", "support devices")),
    ],
)
def test_doubt(text: str, doubtful: tuple[str, ...]) -> None:
    anchor = extract_anchor(text)
    assert anchor.doubtful == doubtful
    mentioned = {mention.finding for mention in find_mentions(text) if mention.doubtful}
    assert mentioned <= {*doubtful}


def test_another_sentence_without_doubt_decides() -> None:
    text = "Any effusion would have layered out by now. Left effusion."
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
