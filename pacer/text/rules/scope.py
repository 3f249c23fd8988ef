"""Which mentions a cue reaches ("no", "possible", "history of"), and the state that follows.

A cue reaches the mentions on its side as far as their list goes on.
"""

from collections.abc import Iterator

from pacer.text.rules.items import Item, Mention
from pacer.text.rules.tables import NEGATIVE, UNCERTAIN

_DEVICES = ("support devices",)
#: Kinds of cues that decide a state. Items of other kinds only limit the reach of these.
_DECIDING = ("no", "maybe", "link", "silent", "keep")


def _goes_on(items: list[Item], place: int, by: tuple[str, ...]) -> bool:
    """Whether one of these conjunctions follows in the same list."""
    kinds = (item.kind for item in items[place:])
    return next((kind in by for kind in kinds if kind in (*by, "end", "verb", "no")), False)


def _is_subject(items: list[Item], place: int) -> bool:
    """Whether a verb or a course follows a mention, which then begins a new statement."""
    between = ("word", "new", "adj", "organ", "prep")
    item = next((item for item in items[place + 1 :] if item.kind not in between), None)
    return item is not None and (item.kind in ("verb", "course") or item.detail == "verb")


def _forwards(items: list[Item], index: int) -> Iterator[Mention]:
    """Yield the mentions that a cue reaches behind it: a list ends at a verb, at the next denial,
    and where a new statement begins ("no pneumothorax, small effusion")."""
    cue = items[index]
    denies, long = cue.kind == "no", cue.detail == "list"
    by = ("or", "between") if denies else ("or", "between", "and")
    seen, words, comma, joined = 0, 0, False, ""
    object_ = verb = closed = inside = False  # "no acute process, ..."; "no callus in the ..."
    for place in range(index + 1, len(items)):
        item = items[place]
        kind = item.kind
        if item.start >= cue.end + cue.after or kind == "end":
            return
        if item.mentions:
            if comma and not joined and not _goes_on(items, place, by):
                if (seen and not denies or not seen and object_) and not long:
                    return
                if seen and _is_subject(items, place):
                    return
            pair = item.mentions[0].pair
            if seen and pair and (comma or joined) and (joined != "or" or pair == "verb"):
                return
            if joined == "and" and (
                (comma and seen and denies and long)
                or (verb and not seen)
                or (closed and _is_subject(items, place))
            ):
                return
            closed = closed or joined == "or"
            if not inside:
                yield from item.mentions
                seen += 1
            comma, joined, inside = False, "", False
        elif kind == ",":
            if denies and cue.before and place == index + 1:  # "absent, consolidation"
                return
            comma, inside = True, False
            object_ = object_ or (not seen and words > 0)
        elif kind in ("and", "or", "/", "between"):
            joined, inside = "or" if kind == "between" else kind, False
        elif kind == "verb":
            following = items[place + 1] if place + 1 < len(items) else item
            if item.detail == "done" and seen and (comma or joined) and following.mentions:
                continue  # "effusion, or identified mass"
            if seen:
                return
            verb = True
        elif kind == "no" and (denies or seen or item.start - cue.end > 2):
            return
        elif kind == "maybe" and cue.after and denies:
            if joined != "or" if seen else words and (comma or joined):
                return
        elif kind == "silent" and cue.kind != "silent" and item.detail != "than":
            return
        elif kind in ("new", "course", "state"):
            listed = (long and not comma) or _goes_on(items, place, ("or", "between"))
            if (seen or object_) and (joined == "and" or (comma and not joined)) and not listed:
                return
        elif kind == "link":
            inside = False
        elif kind == "prep":
            inside = denies and seen + words > 0
        elif kind in ("word", "organ") and not seen:
            words += 1


def _backwards(items: list[Item], index: int) -> Iterator[Mention]:
    """Yield the mentions that a cue reaches before it: its subject, and what is listed with it."""
    cue = items[index]
    seen, comma, joined, listed, first = 0, False, "", cue.detail == "list", -1
    limits = ("no", "silent", "maybe")[: 3 - (cue.kind == "maybe")]
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
        elif kind in ("and", "or", "/", "cause"):
            joined, listed = kind, listed or seen > 0 or kind == "and"
        elif kind == "verb" and seen:
            return
        elif kind in limits and item.after and (seen or comma):
            return


def _closes(items: list[Item], index: int) -> bool:
    """Whether what stands before a cue is its subject ("effusion possible", "is likely seen")."""
    following = items[index + 1].kind if index + 1 < len(items) else "end"
    ends = following in ("end", ",", "and", "or", "verb", "?") or not items[index].after
    return following not in ("course", "cause") if items[index].detail == "be" else ends


def _alternatives(items: list[Item], index: int) -> None:
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


def _beside(items: list[Item]) -> Mention | None:
    """Return the first mention, if no other statement begins before it."""
    ends = (",", "and", "end", "verb", "between", *_DECIDING)
    first = next((item for item in items if item.mentions or item.kind in ends), None)
    return first and next(iter(first.mentions), None)


def add_cues(items: list[Item]) -> None:
    behind, more = [], False
    for index, item in enumerate(items):
        if item.kind in ("/", "between", "or"):
            _alternatives(items, index)
        elif item.kind in _DECIDING:
            more = more or item.detail == "more"
            if item.detail == "than" and not more:  # "larger than before"
                continue
            reached = list(_forwards(items, index)) if item.after else []
            for mention in reached:
                mention.cues.append(item)
            if item.before and not reached and _closes(items, index):
                behind.append(index)
    for index in behind:
        for mention in list(_backwards(items, index)):
            mention.cues.append(items[index])


def decided(mention: Mention) -> tuple[str | None, Item | None]:
    """Return the state of a mention and the cue that decides it: uncertain before negative; None if
    the sentence states nothing."""
    if not mention.cues:
        return mention.base, None
    cues = {cue.kind: cue for cue in mention.cues}
    if "silent" in cues:
        later = [cue for cue in mention.cues if cue.kind == "no" and cue.start > cues["silent"].start]
        return (NEGATIVE, later[-1]) if later else (None, cues["silent"])
    for kind in ("maybe", "between"):
        if kind in cues:
            return UNCERTAIN, cues[kind]
    if "keep" in cues:
        return mention.base, None
    if "no" in cues:
        return None if mention.base == NEGATIVE else NEGATIVE, cues["no"]
    for kind in ("link", "or", "/"):
        if kind in cues:
            return UNCERTAIN, cues[kind]
    return mention.base, None
