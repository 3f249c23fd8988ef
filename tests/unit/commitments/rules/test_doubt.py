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
from pacer.commitments.rules.table import Match
from tests.unit.commitments.rules.test_rules import SENTENCES


def test_features() -> None:
    text = "no edema but large effusion zzz effusion"
    mentions = [mention for mention, _ in segment_readings(text)]
    denial = Match(0, 2, mentions[0].row)
    states, cues = ["negative", "positive", None], [denial, None, denial]
    assert features(text, mentions, states, cues, [8], {"clause"}) == {
        "segment": {"any"},
        "before negative": {"^", "no"},
        "after negative": {"but", "large", "zzz", "$"},
        "negative": {
            "no _",
            "_ but",
            "= edema",
            ", positive",
            "idle clause",
            "cue before, 0 words",
            "0 findings between",
            "0 commas between",
        },
        "before positive": {"^", "no", "but", "large"},
        "after positive": {"zzz", "$"},
        "positive": {"large _", "_ zzz", "= pleural effusion", ", unstated", "idle clause"},
        "before unstated": {"^", "no", "but", "large", "zzz"},
        "after unstated": {"$"},
        "unstated": {
            "zzz _",
            "_ $",
            "= pleural effusion",
            "two states",
            "idle clause",
            "cue before, 4 words",
            "2 findings between",
            "1 commas between",
        },
    }


def test_what_the_weights_are_of() -> None:
    states = ("unstated", *POLARITIES)
    places = ("", "before ", "after ")
    assert WEIGHTS.keys() <= {"segment", *(place + state for place in places for state in states)}
    assert 0 < sum(map(len, WEIGHTS.values())) < 5000


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
        ("It takes more than this to call a pneumothorax.", ("pneumothorax",)),
        # two findings with the states of each other
        ("Effusion on neither side, edema on both.", ("edema", "pleural effusion")),
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
