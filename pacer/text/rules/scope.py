"""The items of a sentence, the mentions of findings among them, and which of these a cue reaches.

Items are phrases of the tables, marks and other words. A mention is an item that names findings
("effusion"), or an organ with its state ("the heart is enlarged", "normal mediastinum"). A cue
("no", "possible", "history of") reaches the mentions on its side as far as their list goes on.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from pacer.text.rules.tables import NEGATIVE, UNCERTAIN, longest

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
        self.value: Item | None = None


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


Items = list[Item]


def items_of(words: Sequence[str], phrases: dict) -> list[Item]:
    """Return the items of a sentence, with its mentions. Words without a row that stand together
    are one item."""
    items: Items = []
    at, is_word = 0, False
    while at < len(words):
        node, end, row = phrases.get(words[at]), at + 1, None
        if node is not None:
            row = node.get("") if len(node) == 1 else None  # a word that begins no longer phrase
            if row is None:
                end, row = longest(phrases, words, at)
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


def _add_states_of_organs(items: Items) -> None:
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


def _qualifies_name(items: Items, index: int) -> bool:
    """Whether a state belongs to a finding behind it ("large effusion")."""
    between = ("word", "new", "course", "adj")
    following = next((i for i in items[index + 1 : index + 4] if i.kind not in between), None)
    return bool(following and following.kind == "name" and following.findings)


def _organs_before(items: Items, index: int) -> tuple[list[int], bool]:
    """Return the places of the organs whose state stands behind them, and whether a verb does."""
    organs, verb, apart = [], False, False
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
            verb = item.detail != "has"
        elif kind in (",", "and", "or", "/"):
            apart = apart or (kind == "," and not (organs or verb))
        elif kind in ("end", "state") or (kind == "no" and (organs or item.before)):
            break
    near = organs and items[index].start - items[organs[0]].end <= 4
    if not verb and (apart or not near or items[organs[0]].kind == "name"):
        return [], False
    return organs, verb or bool(organs and organs[0] == index - 1)


def _organs_after(items: Items, index: int) -> list[int]:
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


_DEVICES = ("support devices",)
_CONJUNCTIONS = ("and", "or", "/", "between")
#: Kinds of cues from the one that decides first.
_RANKS = ("silent", "maybe", "between", "keep", "no", "link", "or", "/")
#: Kinds of cues that decide a state. Items of other kinds only limit the reach of these.
_DECIDING = ("no", "maybe", "link", "silent", "keep")


def _forwards(items: Items, index: int) -> Iterator[Mention]:
    """Yield the mentions that a cue reaches behind it, up to where another statement begins."""
    cue, last, seen = items[index], index, False
    for place in range(index + 1, len(items)):
        item = items[place]
        if item.kind == "end" or item.start >= cue.end + cue.after:
            return
        if item.mentions:
            gap = items[last + 1 : place]
            if _is_cut(cue, gap, seen, items, place) or _begins_anew(cue, gap, seen, items, place):
                return
            if not (cue.kind == "no" and _is_inside(gap, seen)):
                yield from item.mentions
                seen = True
            last = place


def _joints(gap: Items) -> tuple[bool, str]:
    """Return whether words have a comma, and their last conjunction."""
    kinds = [item.kind for item in gap]
    joined = [kind for kind in kinds if kind in _CONJUNCTIONS]
    return "," in kinds, joined[-1].replace("between", "or") if joined else ""


def _is_inside(gap: Items, seen: bool) -> bool:
    """Whether a finding only says where something is ("no callus in the fracture")."""
    kinds = [
        item.kind for item in gap if item.kind in ("word", "prep", ",", "link", *_CONJUNCTIONS)
    ]
    while kinds and kinds[-1] == "word":
        kinds.pop()
    return kinds[-1:] == ["prep"] and (seen or "word" in kinds)


def _has_object(gap: Items) -> bool:
    """Whether a denial has an object of its own ("no acute process, …")."""
    kinds = [item.kind for item in gap]
    return "," in kinds and not {"word", "organ"}.isdisjoint(kinds[: kinds.index(",")])


def _goes_on(items: Items, place: int, denies: bool = True) -> bool:
    """Whether a conjunction follows in the same list."""
    by = ("or", "between") if denies else ("or", "between", "and")
    ends = (*by, "end", "verb", "no")
    kinds = (items[later].kind for later in range(place, len(items)))
    return next((kind in by for kind in kinds if kind in ends), False)


def _is_cut(cue: Item, gap: Items, seen: bool, items: Items, mention: int) -> bool:
    """Whether a verb, another cue or a description before a mention ends the list of a cue ("no
    pneumothorax, small effusion")."""
    for place, item in enumerate(gap):
        if _is_other(cue, item, seen):
            return True
        if item.kind == "verb" and seen:
            # "effusion, or identified mass"
            if item.detail != "done" or item is not gap[-1] or not any(_joints(gap)):
                return True
        elif item.kind in ("new", "course", "state") and (seen or _has_object(gap)):
            comma, joined = _joints(gap[:place])
            listed = (cue.detail == "list" and not comma) or _goes_on(
                items, mention - len(gap) + place
            )
            if (joined == "and" or (comma and not joined)) and not listed:
                return True
    return False


def _is_other(cue: Item, item: Item, seen: bool) -> bool:
    """Whether an item is a cue that ends the list of another one."""
    if item.kind == "no":
        return cue.kind == "no" or seen or item.start - cue.end > 2
    return item.kind == "silent" and cue.kind != "silent" and item.detail != "than"


def _begins_anew(cue: Item, gap: Items, seen: bool, items: Items, place: int) -> bool:
    """Whether a mention begins another statement."""
    comma, joined = _joints(gap)
    denies, is_long = cue.kind == "no", cue.detail == "list"
    # "absent, mass"; "edema has resolved and effusions are small"
    if denies and cue.before and not seen and gap and gap[0].kind in (",", "and"):
        return True
    if comma and not joined and not _goes_on(items, place, denies):
        is_other = not denies if seen else _has_object(gap)
        if (is_other and not is_long) or (seen and _is_subject(items, place)):
            return True
    pair = items[place].mentions[0].pair
    if seen and pair and (comma or joined) and (joined != "or" or pair == "verb"):
        return True
    has_verb = any(item.kind == "verb" for item in gap)
    return joined == "and" and ((comma and denies and is_long) if seen else has_verb)


def _is_subject(items: Items, place: int) -> bool:
    """Whether a verb or a course follows a mention, which then begins a new statement."""
    between = ("word", "new", "adj", "organ", "prep")
    following = (items[later] for later in range(place + 1, len(items)))
    item = next((item for item in following if item.kind not in between), None)
    return item is not None and (item.kind in ("verb", "course") or item.detail == "verb")


def _backwards(items: Items, index: int) -> Iterator[Mention]:
    """Yield the mentions that a cue reaches before it: its subject, and what is listed with it."""
    cue, of_organ = items[index], False
    seen, comma, joined, listed, first = 0, False, "", cue.detail == "list", -1
    for place in range(index - 1, -1, -1):
        item = items[place]
        kind = item.kind
        if item.end <= cue.start - cue.before or kind == "end":
            return
        if item.mentions:
            mention = item.mentions[0]
            denied = joined == "and" and any(other.kind == "no" for other in mention.cues)
            if seen and (denied or not (joined or (comma and listed))) and item.end != first:
                return
            part = any(other.kind == "part" for other in items[max(0, place - 3) : index])
            if part and cue.kind == "no" and mention.findings == _DEVICES:  # "the tip is not seen"
                return
            yield from item.mentions
            seen, comma, joined, first = seen + 1, False, "", item.start
        elif kind == ",":
            comma = True
        elif kind == "and" and of_organ and not seen:  # "opacity, and the heart border is not seen"
            return
        elif kind == "organ":
            of_organ = True
        elif kind in ("and", "or", "/", "cause"):
            joined, listed = kind, listed or seen > 0 or kind == "and"
        elif kind == "verb" and seen:
            return


def _closes(items: Items, index: int) -> bool:
    """Whether what stands before a cue is its subject ("effusion possible", "is likely seen")."""
    following = items[index + 1].kind if index + 1 < len(items) else "end"
    ends = following in ("end", ",", "and", "or", "verb", "?") or not items[index].after
    return following not in ("course", "cause") if items[index].detail == "be" else ends


def _alternatives(items: Items, index: int) -> None:
    """Add a cue to the findings on both sides of it ("atelectasis versus pneumonia")."""
    cue = items[index]
    left, right = _beside(items[:index][::-1]), _beside(items[index + 1 :])
    if cue.kind in ("/", "or") or cue.detail == "hint":
        if not (left and right and left.findings and right.findings) or left.cues or right.cues:
            return
        apart = cue.kind == "/" and (left.end, right.start) != (cue.start, cue.end)
        if apart or left.findings == right.findings:
            return
        if ("lung opacity",) in (left.findings, right.findings):  # "opacity/atelectasis"
            return
    others = list(_forwards(items, index)) if cue.after else [right]
    for mention in filter(None, (left, *others)):
        mention.cues.append(cue)


def _beside(items: Items) -> Mention | None:
    """Return the first mention, if no other statement begins before it."""
    ends = (",", "and", "end", "verb", "between", *_DECIDING)
    first = next((item for item in items if item.mentions or item.kind in ends), None)
    return first.mentions[0] if first and first.mentions else None


def add_cues(items: Items) -> None:
    """Add to each mention the cues that reach it."""
    behind, more = [], False
    last = max(place for place, item in enumerate(items) if item.mentions)
    for index, item in enumerate(items):
        if item.kind in ("/", "between", "or"):
            _alternatives(items, index)
        elif item.kind in _DECIDING:
            more = more or item.detail == "more"
            if item.detail == "than" and not more:  # "larger than before"
                continue
            reached = list(_forwards(items, index)) if item.after and index < last else []
            for mention in reached:
                mention.cues.append(item)
            if item.before and not reached and _closes(items, index):
                behind.append(index)
    for index in behind:
        for mention in list(_backwards(items, index)):
            mention.cues.append(items[index])


def decided(mention: Mention) -> tuple[str | None, Item | None]:
    """Return the state of a mention and the cue that decides it. A value decides before cues, and
    uncertain cues before denials. The state is None if the sentence states nothing."""
    if not (mention.value or mention.cues):
        return mention.base, None
    cues = {cue.kind: cue for cue in ([mention.value] if mention.value else mention.cues)}
    kind = next((kind for kind in _RANKS if kind in cues), "")
    if kind in ("", "keep"):
        return mention.base, None
    if kind == "no" and mention.base != NEGATIVE:
        return NEGATIVE, cues[kind]
    return None if kind in ("silent", "no") else UNCERTAIN, cues[kind]
