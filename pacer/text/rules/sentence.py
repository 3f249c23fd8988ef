"""What one sentence says of findings, with the values beside their names: "effusion: no", "effusion
(absent)", "✗ effusion", "effusion | 0.98", "effusion: ☐ yes ☒ no"."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from pacer.text.rules.scope import Item, Mention, add_cues, decided, items_of
from pacer.text.rules.tables import (
    NEGATIVE,
    POSITIVE,
    UNCERTAIN,
    UNKNOWN,
    Lexicon,
    longest,
    places_of,
    words_of,
)

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
    return not {POSITIVE, UNCERTAIN}.isdisjoint([one.state for one in stated])


@lru_cache(maxsize=4)
def rules_with(lexicon: Lexicon) -> Callable[[str], Sentence]:
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
    places = places_of(text, words, lexicon.forms)
    if not VALUED.isdisjoint(words):
        add_values(items, words, lexicon)
    add_cues(items)
    stated = []
    for mention in sorted(mentions, key=_START):
        first, behind = mention.start, mention.end
        state, cue = decided(mention)
        span = (places[cue.start][0], places[cue.end - 1][1]) if cue else None
        is_named = cue.kind in ("or", "/") if cue else not (mention.cues or mention.value)
        is_plain = is_named and mention.base == POSITIVE
        start, end = places[first][0], places[behind - 1][1]
        for finding in mention.findings:
            stated.append(Stated(start, end, finding, state, span, is_plain, first, behind))
    return Sentence(words, tuple(stated), _affirms(stated))


def answered(question: Sentence, text: str, lexicon: Lexicon) -> Sentence:
    """Return a question with the state by the sentence behind it, if that is an answer ("no",
    "answer: yes, small"); and the head of a table with the values of the row below it."""
    words = words_of(text, lexicon.forms)
    marks = [place + 1 for place, word in enumerate(words) if word == "|"] or [0]
    values = [value for place in marks if (value := value_at(words, place, lexicon))]
    count = len(question.stated)
    if len(values) not in (1, count) or (len(marks) > 1 and count == 1):
        return question
    states = [None if value.detail == UNKNOWN else value.detail for value in values]
    return question.with_states(states if len(states) == count else states * count)


#: The kind of cue that a value is.
_KIND_OF_VALUE = {POSITIVE: "keep", NEGATIVE: "no", UNCERTAIN: "maybe", UNKNOWN: "silent"}
#: Signs and boxes that are values themselves.
_SIGNS = {"✓": POSITIVE, "✗": NEGATIVE, "☒": POSITIVE, "☐": NEGATIVE}
#: Marks before a value, and behind it.
_BEFORE, _BEHIND = frozenset(":=|(–"), frozenset(",)|(–/")
VALUED = _BEFORE.union(_SIGNS)


def _value(start: int, end: int, state: str) -> Item:
    value = Item(start, end, _KIND_OF_VALUE[state])
    value.detail = state
    return value


def value_at(words: Sequence[str], place: int, lexicon: Lexicon) -> Item | None:
    """Return the value that fills a place up to the next mark ("no", "0.02", "not present")."""
    while place < len(words) and (words[place] in lexicon.keys or words[place] == ":"):
        place += 1
    end, state = longest(lexicon.values, words, place)
    is_alone = end >= len(words) or words[end] in _BEHIND
    return _value(place, end, state) if state and is_alone else None


def add_values(items: list[Item], words: Sequence[str], lexicon: Lexicon) -> None:
    """Give mentions the values beside them. A name before a colon is a label if the text behind it
    names the finding again ("Effusion: there is no effusion")."""
    leads = next((word in _SIGNS for word in words if word != "|"), False)
    denies = any(item.kind == "no" for item in items)
    begin = 0  # the first word behind the last value
    for place, word in enumerate(words):
        if place < begin or word not in VALUED or (word == "✓" and denies):
            continue
        if word in _SIGNS:
            value = _sign_at(words, place, lexicon)
        else:
            value = value_at(words, place + 1, lexicon)
        if not value:
            continue
        named = _behind(items, place) if leads else _before(items, words, begin, place, lexicon)
        if not named and words[place - 1] in lexicon.keys:  # "status: absent, finding: effusion"
            named = _behind(items, value.end)[:1]
        for mention in named:
            mention.value = value
        begin = value.end
        for item in items:
            if item.start < value.end and item.end > place and not item.mentions:
                item.kind = "end"
    later: set[str] = set()
    for item, colon in reversed(list(pairwise(items))):
        later |= colon.named()
        if words[colon.start] == ":" and later.intersection(item.named()):
            for mention in item.mentions:
                mention.value = mention.value or _value(colon.start, colon.end, UNKNOWN)


def _sign_at(words: Sequence[str], place: int, lexicon: Lexicon) -> Item | None:
    """Return the value of a sign. A box beside a value is its choice: before it, or behind it if
    the first box of the sentence stands behind one."""
    state = _SIGNS.get(words[place], "")
    if words[place] in "☐☒":
        first = next(place for place, word in enumerate(words) if word in "☐☒")
        beside = place - 1 if longest(lexicon.values, words, first - 1)[1] else place + 1
        choice = longest(lexicon.values, words, beside)[1]
        if choice:
            state = choice if words[place] == "☒" else ""
    return _value(place, place + 1, state) if state else None


def _behind(items: list[Item], place: int) -> list[Mention]:
    """Return the mentions from a place up to the next sign."""
    named: list[Mention] = []
    for item in items:
        if item.kind == "sign" and item.start > place:
            break
        named += item.mentions if item.start >= place else []
    return named


def _before(
    items: list[Item], words: Sequence[str], begin: int, place: int, lexicon: Lexicon
) -> list[Mention]:
    """Return the mentions before a value: the nearest one, and those that "and", "or" or a stroke
    joins with it."""
    named: list[Mention] = []
    is_joined = True
    for item in reversed([item for item in items if begin <= item.start and item.end <= place]):
        if item.mentions:
            if not is_joined:
                break
            named += item.mentions
            is_joined = False
        elif named and item.kind not in ("word", "new", "adj", "course"):
            is_joined = item.kind in ("and", "or", "/")
            if not is_joined:
                break
        elif item.kind == "," and not (words[place] == "|" or words[place - 1] in lexicon.keys):
            break
    return named
