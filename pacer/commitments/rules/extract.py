"""The rule-based extractor of commitments (paper, appendix "Commitment supervision").

The report is lower-cased, blanks are normalised, and it is cut at sentence ends and semicolons. Every mention of a
finding gets a polarity from the cues around it, uncertainty before negation; "no change" and its kin are no negation.
A negative mention is only a candidate while later mentions are inspected; the first positive or uncertain mention
decides. Works on raw reports and on cleaned ones.

``docs/commitments.md`` has the figures, ``docs/method.md`` which sentence of the paper is read how.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from pacer.commitments.anchor import FINDINGS, POLARITIES, Anchor
from pacer.commitments.rules.cues import CUES
from pacer.commitments.rules.matching import Match, Patterns
from pacer.commitments.rules.mentions import FINDINGS_OF, MENTIONS, NORMALITY
from pacer.commitments.rules.polarity import Reading, read_mentions
from pacer.commitments.rules.segments import located_segments, segments


class Mention(NamedTuple):
    """One mention of a finding in a report, for explanations.

    ``report[start:end]`` names the finding; ``polarity`` is None where nothing is said of it. ``cue`` is the span of
    the words that decided the polarity and ``kind`` what they are: ``uncertain``, ``hint``, ``negative``, ``instead``,
    ``silent``; ``normality`` lies in the mention itself; None for a plain mention. ``decided``: the anchor has this
    finding's polarity from here.
    """

    start: int
    end: int
    finding: str
    polarity: str | None
    cue: tuple[int, int] | None
    kind: str | None
    decided: bool


_MENTIONS, _CUES = Patterns(MENTIONS), Patterns(CUES)


def extract_anchor(report: str) -> Anchor:
    """The findings that a report affirms, denies or leaves uncertain; a finding it does not mention is in no field."""
    verdict: dict[str, str] = {}
    for segment in segments(report):
        for finding, polarity in _read(segment.strip()):
            if _overrides(polarity, verdict.get(finding)):
                verdict[finding] = polarity
    return _anchor_of(frozenset(verdict.items()))


def find_mentions(report: str) -> list[Mention]:
    """Every mention of a finding, in order; those that decided have the polarities of :func:`extract_anchor`."""
    mentions: list[Mention] = []
    verdict: dict[str, tuple[str, int]] = {}
    for segment, places in located_segments(report):
        for (start, end, name), (polarity, cue) in _readings(segment):
            span, kind = None, "normality" if name in NORMALITY else None
            if cue is not None:
                span, kind = (places[cue[0]], places[cue[1] - 1] + 1), cue[2].partition("_")[0]
            for finding in FINDINGS_OF[name]:
                if polarity is not None and _overrides(polarity, verdict.get(finding, (None,))[0]):
                    verdict[finding] = polarity, len(mentions)
                mentions.append(Mention(places[start], places[end - 1] + 1, finding, polarity, span, kind, False))
    for _, place in verdict.values():
        mentions[place] = mentions[place]._replace(decided=True)
    return mentions


def _readings(segment: str) -> list[tuple[Match, Reading]]:
    """The mentions of one segment in order, look-alikes included, and what is said of them."""
    words = segment.split()
    text = " ".join(words)
    mentions = _MENTIONS.find(text, words)
    if not mentions:
        return []
    return list(zip(mentions, read_mentions(text, mentions, _CUES.find(text, words)), strict=True))


@lru_cache(maxsize=1 << 15)  # most sentences of a corpus occur many times
def _read(segment: str) -> tuple[tuple[str, str], ...]:
    """What one segment says, in order: finding and polarity."""
    return tuple(
        (finding, polarity)
        for (_, _, name), (polarity, _) in _readings(segment)
        if polarity is not None
        for finding in FINDINGS_OF[name]
    )


def _overrides(polarity: str, before: str | None) -> bool:
    """Does a later mention change the verdict?"""
    return before is None or (before == "negative" and polarity in ("positive", "uncertain"))


@lru_cache(maxsize=1 << 14)
def _anchor_of(verdict: frozenset[tuple[str, str]]) -> Anchor:
    states = dict(verdict)
    return Anchor(*(tuple(f for f in FINDINGS if states.get(f) == name) for name in POLARITIES))
