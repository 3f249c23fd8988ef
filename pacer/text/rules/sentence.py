"""What one sentence says of findings."""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache, partial
from operator import attrgetter
from typing import NamedTuple

from pacer.text.rules.items import Item, Mention, items_of
from pacer.text.rules.lexicon import Lexicon
from pacer.text.rules.scope import add_cues, decided
from pacer.text.rules.tables import NEGATIVE, POSITIVE, UNCERTAIN, places_of, words_of
from pacer.text.rules.values import UNKNOWN, VALUED, Value, add_values, value_at

_START = attrgetter("start")


class Stated(NamedTuple):
    """A finding that a sentence mentions."""

    #: The characters of its name.
    start: int
    end: int
    finding: str
    #: None if the sentence states nothing about it.
    state: str | None
    #: The characters of the words that decide the state.
    cue: tuple[int, int] | None
    #: Whether the sentence only names it, so that a heading decides.
    is_plain: bool
    #: The first word of its name, and the one behind it.
    first: int
    behind: int


class Sentence(NamedTuple):
    """What a sentence says."""

    words: tuple[str, ...]
    stated: tuple[Stated, ...] = ()
    #: Whether it affirms or hedges a finding.
    affirms: bool = False

    def with_states(self, states: Iterable[str | None]) -> "Sentence":
        """Return the sentence with other states of its findings."""
        stated = tuple(one._replace(state=state) for one, state in zip(self.stated, states))
        return Sentence(self.words, stated, _affirms(stated))


def _affirms(stated: Iterable[Stated]) -> bool:
    return any(one.state in (POSITIVE, UNCERTAIN) for one in stated)


@cache
def reader(lexicon: Lexicon) -> Callable[[str], Sentence]:
    """Return the function that reads a sentence in lower case by a lexicon. Most sentences of a
    corpus recur, so it remembers them."""
    return lru_cache(maxsize=1 << 14)(partial(_read, lexicon))


def _read(lexicon: Lexicon, text: str) -> Sentence:
    words = words_of(text, lexicon.forms)
    if lexicon.name_words.isdisjoint(words):
        return Sentence(words)
    items = items_of(words, lexicon.phrases)
    mentions = [mention for item in items for mention in item.mentions]
    if not mentions:
        return Sentence(words)
    places = places_of(text, lexicon.forms)
    if not VALUED.isdisjoint(words):
        add_values(items, words, lexicon)
    add_cues(items)
    stated = []
    for mention in sorted(mentions, key=_START):
        first, behind = mention.start, mention.end
        state, cue = _state(mention)
        span = cue and (places[cue.start][0], places[cue.end - 1][1])
        is_plain = not mention.value and mention.base == POSITIVE and all(one.kind in "or /" for one in mention.cues)
        start, end = places[first][0], places[behind - 1][1]
        for finding in mention.findings:
            stated.append(Stated(start, end, finding, state, span, is_plain, first, behind))
    return Sentence(words, tuple(stated), _affirms(stated))


def _state(mention: Mention) -> tuple[str | None, Item | Value | None]:
    if not mention.value:
        return decided(mention)
    state = mention.value.state
    if state == POSITIVE:
        return mention.base, mention.value
    if state == NEGATIVE and mention.base == NEGATIVE:
        return None, mention.value
    return None if state == UNKNOWN else state, mention.value


def answered(question: Sentence, text: str, lexicon: Lexicon) -> Sentence:
    """Return a question with the state by the sentence behind it, if that is an answer ("no",
    "answer: yes, small"); and the head of a table with the values of the row below it."""
    words = words_of(text, lexicon.forms)
    marks = [place + 1 for place, word in enumerate(words) if word == "|"] or [0]
    values = [value for place in marks if (value := value_at(words, place, lexicon))]
    count = len(question.stated)
    if len(values) not in (1, count) or (len(marks) > 1 and count == 1):
        return question
    states = [None if value.state == UNKNOWN else value.state for value in values]
    return question.with_states(states if len(states) == count else states * count)
