"""What one sentence says of findings."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from pacer.text.rules.items import Item, Mention, items_of
from pacer.text.rules.lexicon import NEGATIVE, POSITIVE, UNCERTAIN, Lexicon
from pacer.text.rules.scope import add_cues, decided
from pacer.text.rules.tables import places_of, words_of

#: Signs that are values by themselves, and boxes, ticked or not.
_SIGNS = ("✓", "✗")
_ALONE = {"✓": POSITIVE, "✗": NEGATIVE, "☒": POSITIVE, "☐": NEGATIVE}
#: Marks between a name and its value, and behind a value.
_START = attrgetter("start")
_VALUED = frozenset((*":=|(–", *_ALONE))
_BEHIND = frozenset((*",)|(–/", *_ALONE))
#: A value that says "not stated".
UNKNOWN = "unknown"


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

    def with_state(self, state: str | None, only_plain: bool = False) -> "Sentence":
        """Return the sentence with another state of its findings, or of those that it only
        names."""
        stated = tuple(
            one if only_plain and not one.is_plain else one._replace(state=state)
            for one in self.stated
        )
        return Sentence(self.words, stated, _affirms(stated))


def _affirms(stated: Iterable[Stated]) -> bool:
    return any(one.state in (POSITIVE, UNCERTAIN) for one in stated)


@lru_cache(maxsize=4)
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
    if not _VALUED.isdisjoint(words):
        _add_values(items, words, [text[slice(*place)] for place in places], lexicon)
    add_cues(items)
    stated = []
    for mention in sorted(mentions, key=_START):
        first, behind = mention.start, mention.end
        state, cue = _state(mention)
        span = cue and (places[cue.start][0], places[cue.end - 1][1])
        is_plain = state == POSITIVE and not (cue or mention.cues)
        start, end = places[first][0], places[behind - 1][1]
        for finding in mention.findings:
            stated.append(Stated(start, end, finding, state, span, is_plain, first, behind))
    return Sentence(words, tuple(stated), _affirms(stated))


def _state(mention: Mention) -> tuple[str | None, Item | None]:
    if not mention.value:
        return decided(mention)
    state = mention.value.detail
    if state == POSITIVE:
        return mention.base, mention.value
    if state == NEGATIVE and mention.base == NEGATIVE:
        return None, mention.value
    return None if state == UNKNOWN else state, mention.value


def value_at(
    words: Sequence[str], place: int, written: Sequence[str], lexicon: Lexicon
) -> Item | None:
    """Return the value that stands between a place and the next mark ("no", "0.02", "not
    present")."""
    end, detail = lexicon.values.longest(words, place)
    if not detail and words[place : place + 1] == ("#",):
        end, detail = place + 1, _of_number(written[place])
    if not detail or (end < len(words) and words[end] not in _BEHIND):
        return None
    return _value(place, end, detail)


def _value(start: int, end: int, state: str) -> Item:
    value = Item(start, end, "value")
    value.detail = state
    return value


def answered(question: Sentence, text: str, lexicon: Lexicon) -> Sentence:
    """Return a question with the state that the sentence behind it gives as an answer ("no",
    "answer: yes, small"), if it is one."""
    words, places = words_of(text, lexicon.forms), places_of(text, lexicon.forms)
    place = 2 if words[1:2] == (":",) and words[0] in lexicon.keys else 0
    value = value_at(words, place, [text[slice(*span)] for span in places], lexicon)
    if not value:
        return question
    return question.with_state(None if value.detail == UNKNOWN else value.detail)


def _of_number(written: str) -> str:
    """Return the value that a number stands for; none if it is no probability. A low one states
    nothing."""
    number = float(written.rstrip("%").replace(",", ".").replace(":", "."))
    number /= 100 if written.endswith("%") else 1
    if number in (0, 1):
        return POSITIVE if number else NEGATIVE
    return "" if number > 1 else POSITIVE if number >= 0.5 else UNKNOWN


def _add_values(
    items: list[Item], words: Sequence[str], written: Sequence[str], lexicon: Lexicon
) -> None:
    """Give mentions the values beside them: "effusion: no", "effusion (absent)", "✗ effusion",
    "effusion | 0.98", "effusion: ☐ yes ☒ no". A name before a colon is a label if the text behind
    it names the finding again."""
    leads = next((word in _ALONE for word in words if word != "|"), False)
    free = 0  # the first word that belongs to no value yet
    for place, word in enumerate(words):
        if place < free or word not in _VALUED:
            continue
        value = None if word in _SIGNS else value_at(words, place + 1, written, lexicon)
        if word == "☐" and value:
            free, value = value.end, None
            continue
        if word in _ALONE and not value:
            value = _value(place, place + 1, _ALONE[word])
        if not value:
            continue
        named = (
            _named_behind(items, place)
            if leads
            else _named_before(items, words, free, place, lexicon)
        )
        if not named and words[place - 1] in lexicon.keys:
            named = _named_behind(items, value.end)[:1]
        for mention in named:
            mention.value = value
        if named:
            free = value.end
            for item in items:
                if item.start < value.end and item.end > place and not item.mentions:
                    item.kind = "end"
    for item, colon in pairwise(items):
        later = {name for other in items if other.start > colon.start for name in other.named()}
        if words[colon.start] == ":" and later.intersection(item.named()):
            for mention in item.mentions:
                mention.value = mention.value or _value(colon.start, colon.end, UNKNOWN)


def _named_behind(items: list[Item], place: int) -> list[Mention]:
    """Return the mentions behind a sign, up to the next one."""
    named: list[Mention] = []
    for item in items:
        if item.start > place and item.kind == "sign":
            break
        named += item.mentions if item.start >= place else []
    return named


def _named_before(
    items: list[Item], words: Sequence[str], free: int, place: int, lexicon: Lexicon
) -> list[Mention]:
    """Return the mentions before a value: the nearest one and those that "and", "or" or a stroke
    join with it."""
    named: list[Mention] = []
    joined = True
    for item in reversed(items):
        if item.start < free or item.end > place:
            continue
        if item.mentions and joined:
            named += item.mentions
            joined = False
        elif named and item.kind in ("and", "or", "/"):
            joined = True
        elif (item.kind == "," and (named or words[place - 1] not in lexicon.keys)) or (
            named and item.kind in ("verb", "end", "no")
        ):
            break
    return named
