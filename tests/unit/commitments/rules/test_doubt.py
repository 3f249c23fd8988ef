"""Doubt: sentences that should and should not be in doubt, and what doubt must not change."""

import pytest

from pacer.commitments.anchor import Anchor, render_anchor
from pacer.commitments.rules import polarity
from pacer.commitments.rules.extract import (
    extract_anchor,
    find_mentions,
    read_report,
    segment_readings,
)
from tests.unit.commitments.rules.test_rules import SENTENCES


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
        ("The left base has traded its effusion for scarring.", ("pleural effusion",)),
        ("We were wrong to call this an effusion.", ("pleural effusion",)),
        # a denial that belongs to nothing
        ("Pneumonia, which the history made us expect, the film does not.", ("pneumonia",)),
        # a sentence that takes back the one before; another sentence without doubt decides
        ("A large effusion was seen; the lobe has since expanded again.", ("pleural effusion",)),
        ("Large effusion. It is not seen on the lateral view. Left effusion.", ()),
    ],
)
def test_doubt(text: str, doubtful: tuple[str, ...]) -> None:
    anchor = extract_anchor(text)
    assert anchor.doubtful == doubtful
    mentioned = {mention.finding for mention in find_mentions(text) if mention.doubtful}
    assert mentioned <= {*doubtful}


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
