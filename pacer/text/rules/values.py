"""Values beside the names of findings: "effusion: no", "effusion (absent)", "✗ effusion", "effusion
| 0.98", "effusion: ☐ yes ☒ no"."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pacer.text.rules.items import Item, Mention
from pacer.text.rules.lexicon import Lexicon
from pacer.text.rules.tables import NEGATIVE, POSITIVE

#: The state of a value that states nothing.
UNKNOWN = "unknown"
#: Signs and boxes that are values themselves.
_SIGNS = {"✓": POSITIVE, "✗": NEGATIVE, "☒": POSITIVE, "☐": NEGATIVE}
#: Marks before a value, and behind it.
_BEFORE, _BEHIND = frozenset(":=|(–"), frozenset(",)|(–/")
VALUED = _BEFORE.union(_SIGNS)


class Value(NamedTuple):
    """A value: its first word, the one behind it, and what it states."""

    start: int
    end: int
    state: str


def value_at(words: Sequence[str], place: int, lexicon: Lexicon) -> Value | None:
    """Return the value that fills a place up to the next mark ("no", "0.02", "not present")."""
    while place < len(words) and (words[place] in lexicon.keys or words[place] == ":"):
        place += 1
    end, state = lexicon.values.longest(words, place)
    is_alone = end >= len(words) or words[end] in _BEHIND
    return Value(place, end, state) if state and is_alone else None


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
    for item, colon in pairwise(items):
        later = {name for other in items if other.start > colon.start for name in other.named()}
        if words[colon.start] == ":" and later.intersection(item.named()):
            for mention in item.mentions:
                mention.value = mention.value or Value(colon.start, colon.end, UNKNOWN)


def _sign_at(words: Sequence[str], place: int, lexicon: Lexicon) -> Value | None:
    """Return the value of a sign. A box beside a value is its choice: before it, or behind it if
    the first box of the sentence stands behind one."""
    state = _SIGNS.get(words[place], "")
    if words[place] in "☐☒":
        first = next(place for place, word in enumerate(words) if word in "☐☒")
        beside = place - 1 if lexicon.values.longest(words, first - 1)[1] else place + 1
        choice = lexicon.values.longest(words, beside)[1]
        if choice:
            state = choice if words[place] == "☒" else ""
    return Value(place, place + 1, state) if state else None


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
