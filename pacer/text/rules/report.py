"""What a report says of findings: states, mentions and attributes, from one reading."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from pacer.core.anchor import POLARITIES, Anchor
from pacer.core.attributes import Attributes
from pacer.core.findings import FINDINGS
from pacer.text.rules.attributes import VERBS, attributes_of_sentences, united
from pacer.text.rules.layout import parts
from pacer.text.rules.sentence import Sentence, answered, rules_with
from pacer.text.rules.tables import NEGATIVE, OWN, POSITIVE, Lexicon


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


def extract_anchor(report: str) -> Anchor:
    """Return the findings that a report affirms, denies or leaves uncertain; findings that it does
    not mention are in no field."""
    return _read(report)[0]


def find_mentions(report: str) -> tuple[Mention, ...]:
    """Return every mention of a finding, in order. :func:`extract_anchor` weighs those that
    contradict each other: the first one that is no denial decides."""
    return tuple(_mentions(zip(*_read(report)[1:])))


def _mentions(sentences: Iterable[tuple[int, Sentence]]) -> Iterator[Mention]:
    for place, sentence in sentences:
        for start, end, name, state, cue, *_ in sentence.stated:
            span = cue and (place + cue[0], place + cue[1])
            yield Mention(place + start, place + end, name, state, span)


def read_attributes(report: str) -> dict[str, Attributes]:
    """Return the attributes of each finding that a report affirms or leaves uncertain, over all of
    its mentions."""
    described = attributes_of_sentences(_read(report)[2])
    return {finding: united(stated) for finding, stated in described.items()}


def read_more(report: str, lexicon: Lexicon) -> dict[str, str]:
    """Return the states of the further findings of a lexicon in a report."""
    states = _states(sentence for _, sentence in _sentences(report, lexicon))
    return {name: state for name, state in states.items() if name not in FINDINGS}


def find_more(report: str, lexicon: Lexicon) -> list[Mention]:
    """Return every mention of a further finding of a lexicon in a report, in order. The 13 are read
    without the further names, so that these change none of their states."""
    found = _mentions(_sentences(report, lexicon))
    return [mention for mention in found if mention.finding not in FINDINGS]


@lru_cache(maxsize=1 << 13)  # several scores read each report of a slice
def _read(report: str) -> tuple[Anchor, Sequence[int], Sequence[Sentence]]:
    """Return the commitment, and the places and contents of the sentences."""
    places, sentences = list[int](), list[Sentence]()
    for place, sentence in _sentences(report, OWN):
        places.append(place)
        sentences.append(sentence)
    return _anchor(frozenset(_states(sentences).items())), places, sentences


@lru_cache(maxsize=1 << 14)
def _anchor(states: frozenset[tuple[str, str]]) -> Anchor:
    fields = ([finding for finding, state in states if state == name] for name in POLARITIES)
    return Anchor.of(*fields)


def _sentences(report: str, lexicon: Lexicon) -> Iterator[tuple[int, Sentence]]:
    """Yield the place of each sentence and what it says. Below a heading such as "Negatives", an
    item with a state of its own ends the list; a question has the state of its answer."""
    read, ended, question = rules_with(lexicon), -1, None
    for text, place, state, heading, is_question in parts(report):
        sentence = read(text)
        if state != POSITIVE and heading != ended and sentence.stated:
            has_verb = not VERBS.isdisjoint(sentence.words)
            own = [one.state if has_verb or not one.is_plain else state for one in sentence.stated]
            if any(one != state for one in own):
                ended = heading
            sentence = sentence.with_states(own)
        if question and {"|"}.issuperset(sentence.words):  # the line below the head of a table
            continue
        if question:
            is_answer = not ("|" in sentence.words and sentence.stated)
            yield question[0], answered(question[1], text, lexicon) if is_answer else question[1]
        is_head = len(sentence.stated) > 1 and "|" in sentence.words
        question = (place, sentence) if is_question or is_head else None
        if not question:
            yield place, sentence
    if question:
        yield question


def _states(sentences: Iterable[Sentence]) -> dict[str, str]:
    """Return the state of each finding: of its first mention that is no denial, if there is one. An
    addendum replaces what the text before it says."""
    states: dict[str, str] = {}
    before: dict[str, str] = {}
    for sentence in sentences:
        if sentence.words[:1] == ("addendum",):
            before, states = before | states, {}
        for one in sentence.stated:
            if one.state and states.get(one.finding, NEGATIVE) == NEGATIVE:
                states[one.finding] = one.state
    return before | states
