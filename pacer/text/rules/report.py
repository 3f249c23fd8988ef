"""What a report says of findings: states, mentions and attributes, from one reading."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pacer.commitments.anchor import POLARITIES, Anchor, Attributes
from pacer.data.findings import FINDINGS
from pacer.text.rules.attributes import attributes_of_sentences, united
from pacer.text.rules.layout import parts
from pacer.text.rules.lexicon import NEGATIVE, OWN, POSITIVE, Lexicon
from pacer.text.rules.sentence import UNKNOWN, Sentence, answer, read_sentence


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


class _Reading(NamedTuple):
    states: Mapping[str, str]
    mentions: tuple[Mention, ...]
    sentences: Sequence[Sentence]


def extract_anchor(report: str) -> Anchor:
    """Return the findings that a report affirms, denies or leaves uncertain; findings that it does
    not mention are in no field."""
    return _anchor(frozenset(_read(report).states.items()))


def find_mentions(report: str) -> tuple[Mention, ...]:
    """Return every mention of a finding, in order. :func:`extract_anchor` weighs those that
    contradict each other: the first one that is no denial decides."""
    return _read(report).mentions


def read_report(report: str) -> tuple[Anchor, tuple[Mention, ...]]:
    """Return what :func:`extract_anchor` and :func:`find_mentions` return."""
    return extract_anchor(report), find_mentions(report)


def read_attributes(report: str) -> dict[str, Attributes]:
    """Return the attributes of each finding that a report affirms or leaves uncertain, over all of
    its mentions."""
    return {
        finding: united(stated) for finding, stated in sentence_attributes(report).items()
    }


@lru_cache(maxsize=1 << 13)
def sentence_attributes(report: str) -> dict[str, list[Attributes]]:
    """Return the attributes of each finding as :func:`read_attributes`, but separately for each
    sentence that describes it."""
    return attributes_of_sentences(_read(report).sentences)


def read_more(report: str, lexicon: Lexicon) -> dict[str, str]:
    """Return the states of the further findings of a lexicon (``more_findings``) in a report."""
    further = {finding for row in lexicon.names for finding in row.findings} - set(FINDINGS)
    return {name: state for name, state in _read(report, lexicon).states.items() if name in further}


@lru_cache(maxsize=1 << 13)  # several scores read each report of a slice
def _read(report: str, lexicon: Lexicon = OWN) -> _Reading:
    mentions: list[Mention] = []
    sentences = []
    ended, addendum = -1, 0  # the heading whose list has ended; the first mention of an addendum
    asked: Sequence[int] = ()  # the mentions of a question before its answer
    for text, start, state, heading, is_question in parts(report):
        if text.startswith("addendum"):
            addendum = len(mentions)
        sentence = read_sentence(text, POSITIVE if heading == ended else state, lexicon)
        if sentence.differs:
            ended = heading
        reply = answer(text, lexicon) if asked else None
        for place in asked if reply else ():
            mentions[place] = mentions[place]._replace(polarity=None if reply == UNKNOWN else reply)
        asked = range(len(mentions), len(mentions) + len(sentence.stated)) if is_question else ()
        for begin, end, finding, polarity, cue in sentence.stated:
            place = cue and (start + cue[0], start + cue[1])
            mentions.append(Mention(start + begin, start + end, finding, polarity, place))
        sentences.append(sentence)
    states = _states(mentions[:addendum]) | _states(mentions[addendum:])
    return _Reading(states, tuple(mentions), sentences)


def _states(mentions: Sequence[Mention]) -> dict[str, str]:
    """Return the state of each finding: of its first mention that is no denial, if there is one."""
    states: dict[str, str] = {}
    for mention in mentions:
        if mention.polarity and states.get(mention.finding, NEGATIVE) == NEGATIVE:
            states[mention.finding] = mention.polarity
    return states


@lru_cache(maxsize=1 << 14)
def _anchor(states: frozenset[tuple[str, str]]) -> Anchor:
    return Anchor.of(
        *([finding for finding, state in states if state == name] for name in POLARITIES)
    )
