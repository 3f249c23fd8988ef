"""The rule-based extractor of commitments (paper, appendix "Commitment supervision"), for raw and
cleaned reports.

Segments (``segments.py``) have mentions of names and cues (``table.py``), and ``polarity.py`` finds
which cues reach which mention. A negative mention is provisional: the first positive or uncertain
mention decides, even if it comes later. ``docs/commitments.md`` has results.

The paper's own rule set, as far as that appendix describes it, is in ``paper.py``;
``docs/readings.md`` lists what the paper leaves open.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from pacer.commitments.rules.polarity import Reading, read_mentions
from pacer.commitments.rules.segments import (
    ADDENDUM,
    expand_abbreviations,
    located_segments,
)
from pacer.commitments.rules.table import CUES, NAMES, Match, Patterns
from pacer.commitments.rules.verdicts import Segment, Statement, Verdicts
from pacer.core.anchor import POLARITIES, Anchor


class Mention(NamedTuple):
    """One mention of a finding in a report, for explanations.

    ``report[start:end]`` names the finding; ``polarity`` is None if the text does not state one.
    ``cue`` is the span of the words that decided the polarity; None for a plain mention.
    """

    start: int
    end: int
    finding: str
    polarity: str | None
    cue: tuple[int, int] | None


_NAMES, _CUES = Patterns(NAMES), Patterns(CUES)
#: Words that refer to a finding that was named before, if they name none themselves.
_REFERRING = ("former", "latter", "cleared")


def extract_anchor(report: str) -> Anchor:
    """Extract the findings that a report affirms, denies or leaves uncertain; unmentioned findings
    are in no field."""
    return read_report(report)[0]


def find_mentions(report: str) -> tuple[Mention, ...]:
    """Return every mention of a finding, in order; :func:`extract_anchor` weighs those that
    contradict each other."""
    return read_report(report)[1]


@lru_cache(maxsize=1 << 13)  # several scores read each report of a slice
def read_report(report: str) -> tuple[Anchor, tuple[Mention, ...]]:
    """Return what :func:`extract_anchor` and :func:`find_mentions` return, from one reading."""
    mentions: list[Mention] = []
    verdicts = Verdicts()
    former, last = (), ()
    for segment, places, readings in _segments(report):
        if segment.text == ADDENDUM:  # it replaces earlier statements about the same findings
            verdicts.begin_addendum()
        for mention, polarity, cue in readings:
            findings, says = mention.row.findings, mention.row.says
            if findings not in ((), last):
                former, last = last, findings
            named = former if says == "former" else last
            if says == "cleared" and not segment.speaks_of_the_past(mention.start):
                continue
            start, end = _place(report, mention, places)
            decided = cue and _place(report, cue, places)
            for finding in named:
                mentions.append(Mention(start, end, finding, polarity, decided))
            if polarity is None:
                continue
            refers = says in _REFERRING or (says == "denies" and not findings)
            statement = Statement(segment, mention, polarity, cue, refers)
            for finding in named:
                verdicts.hear(finding, statement)
    mentions.sort(key=lambda mention: mention.start)  # asides come after the rest of a sentence
    return _anchor_of(frozenset(verdicts.polarities().items())), tuple(mentions)


def _segments(
    report: str,
) -> Iterator[tuple[Segment, Sequence[int], Sequence[Reading]]]:
    """Yield the segments of a report that have mentions, and the marks of an addendum, with the
    places of their characters and their readings."""
    before, end_before = "", 0
    for number, (text, places) in enumerate(located_segments(report)):
        readings = segment_readings(text)
        if readings or text == ADDENDUM:
            gap = report[end_before : places[0]]
            yield Segment(number, text, before, gap.strip(" \n\"'") == ";"), places, readings
        before, end_before = text, places[-1] + 1


def _place(report: str, words: Match, places: Sequence[int]) -> tuple[int, int]:
    """Return the place of some words of a segment in the report, without the blanks at their ends,
    which a pattern or an abbreviation may include."""
    start, end = places[words.start], places[words.end - 1] + 1
    if not (report[start].isspace() or report[end - 1].isspace()):
        return start, end
    written = report[start:end]
    return end - len(written.lstrip()), start + len(written.rstrip())


@lru_cache(maxsize=1 << 15)  # most sentences of a corpus recur often
def segment_readings(segment: str) -> Sequence[Reading]:
    """Return how the mentions of one segment are read, in order, without look-alikes, at their
    places in the segment."""
    text, places, commas = expand_abbreviations(segment)
    plain = text
    if "/" in text:
        plain = text.replace("/", " ").replace("and or", "and/or")
    words = plain.split()
    mentions = _NAMES.find(plain, words, commas)
    if not mentions:
        return ()
    if plain is not text:  # the stroke is a cue between two findings, and a space elsewhere
        for one, other in pairwise(mentions):
            if text[one.end : other.start] == "/" and one.row.findings != other.row.findings:
                plain = f"{plain[: one.end]}/{plain[other.start :]}"
                words.append("/")
    readings = [
        reading
        for reading in read_mentions(plain, mentions, _CUES.find(plain, words), commas)
        if reading.mention.row.says != "nothing"
    ]
    if isinstance(places, range):  # every character stands where it was written
        return tuple(readings)
    return tuple(
        Reading(_moved(mention, places), polarity, cue and _moved(cue, places))
        for mention, polarity, cue in readings
    )


def _moved(match: Match, places: Sequence[int]) -> Match:
    """Return a match in an expanded segment at its place in the segment as it was written."""
    return Match(places[match.start], places[match.end - 1] + 1, match.row)


@lru_cache(maxsize=1 << 14)
def _anchor_of(verdict: frozenset[tuple[str, str]]) -> Anchor:
    states = dict(verdict)
    return Anchor.of(
        *([finding for finding, state in states.items() if state == name] for name in POLARITIES)
    )
