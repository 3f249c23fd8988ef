"""What one sentence says of findings."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from pacer.text.rules.items import Item, Mention, items_of
from pacer.text.rules.lexicon import NEGATIVE, OWN, POSITIVE, UNCERTAIN, Lexicon
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


#: A finding that a sentence mentions: the characters of its name; the finding; its state, None if
#: the sentence states nothing about it; the characters of the words that decide the state.
Stated = tuple[int, int, str, str | None, tuple[int, int] | None]


class Sentence(NamedTuple):
    """What a sentence says, and its words."""

    words: tuple[str, ...]
    stated: tuple[Stated, ...]
    #: Of each finding the first word of its name, the word behind it, and the finding itself; empty
    #: if the sentence does not affirm or hedge it.
    named: tuple[tuple[int, int, str], ...]
    #: Whether it affirms or hedges a finding.
    affirms: bool
    #: Whether a heading's state ends here, because a finding has another one.
    differs: bool


@lru_cache(maxsize=1 << 14)  # most sentences of a corpus recur
def read_sentence(text: str, inherited: str = POSITIVE, lexicon: Lexicon = OWN) -> Sentence:
    """Return what a sentence in lower case says. ``inherited``: the state, by the heading above it,
    of findings about which the sentence itself says nothing."""
    words = words_of(text, lexicon.forms)
    if lexicon.name_words.isdisjoint(words):
        return Sentence(words, (), (), False, False)
    items = items_of(words, lexicon.phrases)
    mentions = [mention for item in items for mention in item.mentions]
    if not mentions:
        return Sentence(words, (), (), False, False)
    places = places_of(text, lexicon.forms)
    if not _VALUED.isdisjoint(words):
        _add_values(items, words, [text[slice(*place)] for place in places], lexicon)
    add_cues(items)
    stated, named, differs = [], [], False
    has_verb = inherited != POSITIVE and any(item.kind == "verb" for item in items)
    for mention in sorted(mentions, key=_START):
        state, cue = _state(mention)
        if has_verb or cue or mention.cues or mention.base == NEGATIVE:
            differs = differs or state != inherited
        elif state == POSITIVE:
            state = inherited
        span = cue and (places[cue.start][0], places[cue.end - 1][1])
        start, end = places[mention.start][0], places[mention.end - 1][1]
        for finding in mention.findings:
            stated.append((start, end, finding, state, span))
            there = finding if state in (POSITIVE, UNCERTAIN) else ""
            named.append((mention.start, mention.end, there))
    affirms = any(there for *_, there in named)
    return Sentence(words, tuple(stated), tuple(named), affirms, differs)


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


def answer(text: str, lexicon: Lexicon = OWN) -> str | None:
    """Return the value with which a sentence answers a question before it ("no", "answer: yes,
    small"); None if it is no answer."""
    words, places = words_of(text, lexicon.forms), places_of(text, lexicon.forms)
    place = 2 if words[1:2] == (":",) and words[0] in lexicon.keys else 0
    value = value_at(words, place, [text[slice(*span)] for span in places], lexicon)
    return value.detail if value else None


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
        named = _named_behind(items, place) if leads else _named_before(items, words, free, place, lexicon)
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
        elif item.kind == "," and (named or not words[place - 1] in lexicon.keys):
            break
        elif named and item.kind in ("verb", "end", "no"):
            break
    return named
