"""A report in which one finding has the opposite polarity, and nothing else changes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pacer.commitments.anchor import POLARITIES, Anchor
from pacer.commitments.rules.extract import extract_anchor

_OPPOSITE = {"positive": "negative", "negative": "positive"}
#: A plain sentence for each polarity, in the form of a cleaned report. The rules read all of them (a test).
_TEMPLATES = {"positive": "there is {} .", "negative": "there is no {} .", "uncertain": "there may be {} ."}
_SENTENCE_END = re.compile(r"(?<= \.)\s+")


def flippable(report: str) -> list[str]:
    """Return the findings that :func:`flip` can change in a cleaned report."""
    anchor = extract_anchor(report)
    return [finding for finding in (*anchor.positive, *anchor.negative) if flip(report, finding) is not None]


def flip(report: str, finding: str) -> str | None:
    """Return a cleaned report with the opposite polarity of a finding that it affirms or denies.

    The sentence that names the finding is replaced by one plain sentence for each finding that it names. The rules
    check the result: every other finding must keep its polarity.

    Returns:
        None if not exactly one sentence names the finding, or the rules do not read the result as intended.
    """
    sentences = _SENTENCE_END.split(report.strip())
    naming = [place for place, sentence in enumerate(sentences) if extract_anchor(sentence).polarity(finding)]
    before = extract_anchor(report)
    wanted = _opposite(before, finding)
    if len(naming) != 1 or wanted == before:
        return None
    place = naming[0]
    said = _opposite(extract_anchor(sentences[place]), finding)
    flipped = " ".join([*sentences[:place], *_sentences(said), *sentences[place + 1 :]])
    return flipped if extract_anchor(flipped) == wanted else None


def _opposite(anchor: Anchor, finding: str) -> Anchor:
    """Return the anchor with the finding's polarity exchanged; unchanged if it is uncertain or not mentioned."""
    polarities = {name: polarity for polarity in POLARITIES for name in getattr(anchor, polarity)}
    if (opposite := _OPPOSITE.get(polarities.get(finding, ""))) is not None:
        polarities[finding] = opposite
    return Anchor.of(*([name for name, said in polarities.items() if said == polarity] for polarity in POLARITIES))


def _sentences(anchor: Anchor) -> Sequence[str]:
    return [_TEMPLATES[polarity].format(name) for polarity in POLARITIES for name in getattr(anchor, polarity)]
