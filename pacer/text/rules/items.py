"""The items of a sentence: phrases of the tables, marks and other words; and the mentions of
findings among them.

A mention is an item that names findings ("effusion"), or an organ with its state ("the heart is
enlarged", "normal mediastinum").
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pacer.text.rules.tables import Phrases

_KIND_OF_MARK = {mark: mark for mark in "/?"} | dict.fromkeys(",()–", ",")
_KIND_OF_MARK |= dict.fromkeys(":=", "verb") | dict.fromkeys("✓✗☐☒", "sign") | {"|": "end"}


class Mention:
    """A mention of findings, or of a look-alike, which has none."""

    def __init__(self, findings: tuple[str, ...], base: str, start: int, end: int, pair: str = ""):
        self.findings, self.base, self.start, self.end = findings, base, start, end
        #: Of an organ with its state: ``verb`` if a verb joins them, else ``pair``.
        self.pair = pair
        self.cues: list[Item] = []
        #: The value beside the name ("effusion: no").
        self.value: Value | None = None


class Item:
    """A phrase, a mark or other words, and the places of its first word and the one behind it."""

    detail, before, after = "", 0, 0
    findings: tuple[str, ...] = ()
    values: Mapping[str, str] = MappingProxyType({})
    mentions: Sequence[Mention] = ()

    def __init__(self, start: int, end: int, kind: str):
        self.start, self.end, self.kind = start, end, kind

    def named(self) -> set[str]:
        """Return the findings of its mentions."""
        return {finding for mention in self.mentions for finding in mention.findings}


def items_of(words: Sequence[str], phrases: Phrases) -> list[Item]:
    """Return the items of a sentence, with its mentions. Words without a row that stand together are
    one item."""
    items: list[Item] = []
    at, root, is_word = 0, phrases.root, False
    while at < len(words):
        end, row = phrases.longest(words, at) if words[at] in root else (at, None)
        if row is not None:
            item = Item(at, end, row.kind)
            item.detail, item.before, item.after = row.detail, row.before, row.after
            item.findings, item.values = row.findings, row.values
            if row.kind == "name":
                item.mentions = [Mention(row.findings, row.base, at, end)]
            items.append(item)
            is_word = False
        else:
            end = at + 1
            kind = _KIND_OF_MARK.get(words[at], "word")
            if is_word and kind == "word":
                items[-1].end = end
            else:
                items.append(Item(at, end, kind))
            is_word = kind == "word"
        at = end
    _add_states_of_organs(items)
    return items


def _add_states_of_organs(items: list[Item]) -> None:
    """Add a mention for each organ with a state ("heart size is normal")."""
    for index, item in enumerate(items):
        if item.kind != "state" or not item.values or _qualifies_name(items, index):
            continue
        before, verb = _organs_before(items, index)
        after = _organs_after(items, index)
        for place in before if before and (verb or not after) else after:
            organ = items[place]
            values = item.values
            value = values.get("heart" if organ.detail == "both" else organ.detail)
            if organ.kind == "organ" and value:
                first, last = items[min(place, index)], items[max(place, index)]
                pair = "verb" if verb and place < index else "pair"
                mention = Mention(organ.findings, value, first.start, last.end, pair)
                last.mentions = [*last.mentions, mention]


def _qualifies_name(items: list[Item], index: int) -> bool:
    """Whether a state belongs to a finding behind it ("large effusion")."""
    if [item.kind for item in items[max(0, index - 2) : index]] == ["organ", "verb"]:
        return False
    between = ("word", "new", "course", "adj")
    following = next((i for i in items[index + 1 : index + 4] if i.kind not in between), None)
    return bool(following and following.kind == "name" and following.findings)


def _organs_before(items: list[Item], index: int) -> tuple[list[int], bool]:
    """Return the places of the organs whose state stands behind them, and whether a verb does."""
    organs, verb, apart, words, again = [], False, False, 0, False
    for place in range(index - 1, -1, -1):
        item = items[place]
        kind = item.kind
        if kind in ("organ", "name"):
            organs.append(place)
        elif kind == "verb" or item.detail == "be":
            if item.detail == "done" or (verb and items[place + 1].kind in ("verb", "word")):
                continue
            if organs or verb:
                break
            verb, words = item.detail != "has", 0
        elif kind in (",", "and", "or", "/"):
            again = again or (verb and not words and not organs)
            apart = apart or (kind == "," and not (organs or verb))
        elif kind == "state" and again and not organs:  # "was normal and is enlarged"
            return _organs_before(items, place)[0], True
        elif kind in ("end", "state") or (kind == "no" and (organs or item.before)):
            break
        elif kind in ("word", "new"):
            words += 1
    near = organs and items[index].start - items[organs[0]].end <= 4
    if not verb and (apart or not near or items[organs[0]].kind == "name"):
        return [], False
    return organs, verb or bool(organs and organs[0] == index - 1)


def _organs_after(items: list[Item], index: int) -> list[int]:
    """Return the places of the organs whose state stands before them."""
    organs = []
    for place in range(index + 1, len(items)):
        kind = items[place].kind
        if kind == "organ":
            organs.append(place)
        elif kind == "verb":  # the last one begins a new statement
            return organs[:-1] if len(organs) > 1 else organs
        elif kind in (("new", "course") if organs else (",", "and", "or", "/")) or kind in (
            "end", "name", "state", "no",
        ):  # fmt: skip
            break
    return organs
