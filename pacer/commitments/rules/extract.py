"""The rule-based extractor of commitments (paper, appendix "Commitment supervision"), for raw and cleaned reports.

Segments (``segments.py``) have mentions of names and cues (``table.py``), and ``polarity.py`` finds which cues reach
which mention. A negative mention is provisional: the first positive or uncertain mention decides, even if it comes
later. ``docs/commitments.md`` has results, ``docs/readings.md`` the paper.
"""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from pacer.commitments.anchor import POLARITIES, Anchor
from pacer.commitments.rules.polarity import Reading, read_mentions
from pacer.commitments.rules.segments import ADDENDUM, in_full, located_segments, segments
from pacer.commitments.rules.table import CUES, NAMES, Match, Patterns


class Mention(NamedTuple):
    """One mention of a finding in a report, for explanations.

    ``report[start:end]`` names the finding; ``polarity`` is None if the text does not state one. ``cue`` is the span of
    the words that decided the polarity; None for a plain mention.
    """

    start: int
    end: int
    finding: str
    polarity: str | None
    cue: tuple[int, int] | None


_NAMES, _CUES = Patterns(NAMES), Patterns(CUES)


def extract_anchor(report: str) -> Anchor:
    """Extract the findings that a report affirms, denies or leaves uncertain; unmentioned findings are in no field."""
    verdict: dict[str, str] = {}
    before: dict[str, str] = {}
    last: tuple[str, ...] = ()
    for segment in segments(report):
        if segment == ADDENDUM:  # what it says of a finding holds instead of what was said before
            before, verdict = before | verdict, {}
        for findings, polarity in _read(segment.strip()):
            last = findings or last
            for finding in last:
                if polarity is not None and verdict.get(finding, "negative") == "negative":
                    verdict[finding] = polarity
    return _anchor_of(frozenset((before | verdict if before else verdict).items()))


def find_mentions(report: str) -> list[Mention]:
    """Return every mention of a finding, in order; :func:`extract_anchor` weighs those that contradict each other."""
    mentions: list[Mention] = []
    last: tuple[str, ...] = ()
    for located in located_segments(report):
        segment, origins, commas = in_full(*located)
        places = origins or []
        for mention, (polarity, cue) in _readings(segment, commas):
            named, decided = (
                _without_blanks(report, places[one.start], places[one.end - 1] + 1) for one in (mention, cue or mention)
            )
            last = mention.row.findings or last
            mentions += (Mention(*named, finding, polarity, decided if cue else None) for finding in last)
    return mentions


def _without_blanks(report: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without the blanks at its ends: a pattern or an abbreviation may take one with it."""
    words = report[start:end]
    return end - len(words.lstrip()), start + len(words.rstrip())


def _readings(segment: str, commas: list[int]) -> list[tuple[Match, Reading]]:
    """Return the mentions of one segment in order, without look-alikes, with their readings."""
    text = plain = segment
    if "/" in segment:
        plain = segment.replace("/", " ").replace("and or", "and/or")
    words = plain.split()
    mentions = _NAMES.find(plain, words, commas)
    if not mentions:
        return []
    if plain is not text:  # the stroke is a cue between two findings, and a space elsewhere
        for one, other in pairwise(mentions):
            if text[one.end : other.start] == "/" and one.row.findings != other.row.findings:
                plain = f"{plain[: one.end]}/{plain[other.start :]}"
                words.append("/")
    readings = zip(mentions, read_mentions(plain, mentions, _CUES.find(plain, words), commas), strict=True)
    return [(mention, reading) for mention, reading in readings if mention.row.says != "nothing"]


@lru_cache(maxsize=1 << 15)  # most sentences of a corpus recur often
def _read(segment: str) -> tuple[tuple[tuple[str, ...], str | None], ...]:
    """Return the findings (none: those named last) and the polarity of each mention of one segment, in order."""
    text, _, commas = in_full(segment.split(), None)
    return tuple((mention.row.findings, reading.polarity) for mention, reading in _readings(text, commas))


@lru_cache(maxsize=1 << 14)
def _anchor_of(verdict: frozenset[tuple[str, str]]) -> Anchor:
    states = dict(verdict)
    return Anchor.of(*([finding for finding, state in states.items() if state == name] for name in POLARITIES))
