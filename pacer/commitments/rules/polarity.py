"""Polarity of a mention from the cues around it.

Uncertainty is checked before negation, and a mention without a cue is positive (a statement of normality is negative).
The paper's "local window" of a mention is its clause, and any list of findings that a cue introduces or closes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pacer.commitments.rules.matching import Match
from pacer.commitments.rules.table import GROUPS


class Reading(NamedTuple):
    """The polarity of one mention (None: not stated), and the cue that decided it, if any."""

    polarity: str | None
    cue: Match | None


#: What cues can say of a finding; other cues (exceptions, clauses, ...) limit the reach of these.
_SPEAKS = frozenset({"uncertain", "hint", "negative", "silent", "instead"})


def read_mentions(segment: str, mentions: list[Match], cues: list[Match]) -> list[Reading]:
    """Read each mention by the cues that reach it."""
    speaking = [cue for cue in cues if cue.row.says in _SPEAKS]
    if not speaking:
        return [_decide(mention, speaking) for mention in mentions]
    return [_read_mention(segment, mentions, index, speaking, cues) for index in range(len(mentions))]


def _decide(mention: Match, cues: list[Match]) -> Reading:
    """Decide: uncertain before negative before the mention's own polarity; the nearest of several cues is returned."""
    if not cues:
        return Reading("negative" if mention.row.says == "denies" else "positive", None)
    by_word: dict[str, list[Match]] = {}
    for cue in cues:
        by_word.setdefault(cue.row.says, []).append(cue)
    negative = by_word.get("negative", []) + by_word.get("instead", [])
    uncertain = by_word.get("uncertain") or ([] if negative else by_word.get("hint"))
    deciding = uncertain or negative
    silent = by_word.get("silent")
    if silent and not any(cue.start > silent[-1].start for cue in deciding):
        return Reading(None, silent[-1])
    nearest = min(deciding, key=lambda cue: max(cue.start - mention.end, mention.start - cue.end))
    return Reading("uncertain" if uncertain else "negative", nearest)


def _read_mention(segment: str, mentions: list[Match], index: int, speaking: list[Match], cues: list[Match]) -> Reading:
    mention = mentions[index]
    start, end, _ = mention
    floor, ceiling = 0, end
    if speaking[-1].start >= end:
        ceiling = _end_of_list(segment, mentions, index)
    for cue in cues:
        if cue.end <= start:
            if cue.row.says == "clause":
                floor = max(floor, cue.end)
            elif cue.row.says == "instead":
                floor = max(floor, cue.start)
        elif cue.start >= end and cue.row.says in ("clause", "statement", "degree", "instead"):
            ceiling = min(ceiling, cue.start)
    within = [
        cue
        for cue in speaking
        if _reaches(cue, mention, floor, ceiling)
        and not (cue.end <= start and _spent(segment, cue, index, mentions, cues))
        and not (mention.row.findings == ("support devices",) and _beside_the_device(segment, cue, index, mentions))
        and not (cue.row.side == "between" and _of_the_next(segment, cue, index, mentions))
    ]
    return _decide(mention, within)


def _reaches(cue: Match, mention: Match, floor: int, ceiling: int) -> bool:
    """Whether a mention stands on the cue's side, within its reach and its clause, which lasts from ``floor`` to
    ``ceiling``. A cue inside the mention counts as before it."""
    forwards, backwards = cue.row.reach
    if cue.start < mention.end:
        return cue.start >= max(floor, mention.start - forwards) and forwards > 0
    return cue.start < min(ceiling, mention.end + backwards)


_LISTED, _COURSE, _FOUND, _VERB = (re.compile(GROUPS[name]) for name in ("listed", "course", "found", "verb"))
_PART_OF, _ITS_PART, _PLACE, _PLACED = (re.compile(GROUPS[name]) for name in ("part_of", "its_part", "place", "placed"))
_ALTERNATIVE, _CONJUNCTION = re.compile(r"\b(?:or|nor|andor)\b"), re.compile(r"\b(?:or|nor|andor|and)\b")
_BESIDES = re.compile(r"\band\b(?! or\b)")


def _end_of_list(segment: str, mentions: list[Match], index: int) -> int:
    """Return where the text after a mention stops referring to it: at the next finding that is not listed with it
    ("effusion or pneumothorax is not seen" refers to both, "effusion, pneumothorax is not seen" does not)."""
    end, joined = mentions[index + 1][0] if index + 1 < len(mentions) else len(segment), False
    for here, following in zip(mentions[index:], mentions[index + 1 :]):
        listed = _LISTED.fullmatch(segment, here[1], following[0])
        if not listed:
            return following[0] if joined else end
        one_thing = following[0] == here[1] + 1 and here.row.findings == following.row.findings  # "mass lesion"
        joined = joined or listed[1] is not None or one_thing
    return len(segment) if joined else end


def _spent(segment: str, cue: Match, index: int, mentions: list[Match], cues: list[Match]) -> bool:
    """Whether a cue before a mention applies to an earlier phrase, and a new statement has begun since."""
    _, cue_end, row = cue
    start, end, _ = mentions[index]
    for begin, begun, other in cues:
        # "likely atelectasis, no pneumothorax": a denial also begins a new statement
        denial = "denial" in row.ends and other.says == "negative" and other.side == "before"
        # (a name may itself begin with its degree: "increased markings")
        if cue_end <= begin <= start and (
            denial or ("statement" in row.ends and other.says in ("statement", "degree"))
        ):
            # a hedge needs a phrase to hedge, not necessarily a finding: "possible scarring, no pneumothorax", unlike
            # "probably no pneumothorax"
            if denial and segment.count(" ", cue_end, begin) > 2:
                return True
            met = [earlier for earlier in mentions[:index] if cue_end <= earlier.start and earlier.end <= begin]
            if met and not (
                other.says == "degree" and _in_a_list(segment, cue, met[-1], (begin, begun), mentions, cues)
            ):
                return True
    if not index or mentions[index - 1][0] < cue_end:
        return False
    before = mentions[index - 1][1]
    # "no effusion or edema, cardiomegaly": the "or" has closed the list, unless another one follows
    new = start == before + 1 and mentions[index - 1].row.findings != mentions[index].row.findings
    closed = _ALTERNATIVE.search(segment, cue_end, before) and not _ALTERNATIVE.search(segment, end)
    if row.says == "negative" and new and closed:
        return True
    if _VERB.search(segment, start, end):
        return True
    # "no pneumothorax, left effusion is unchanged", but not "no pneumothorax or effusion is unchanged"
    return _COURSE.match(segment, end) is not None and _ALTERNATIVE.search(segment, before, start) is None


def _in_a_list(
    segment: str, cue: Match, before: Match, degree: tuple[int, int], mentions: list[Match], cues: list[Match]
) -> bool:
    """Whether a word of degree is within the list that a cue introduces, because a later "or" joins its finding to
    another ("no consolidation, small effusion, or pneumothorax"). Text after the "or" of the list is outside.
    ``before`` is the last finding before the word."""
    begin, place = degree
    if not _LISTED.fullmatch(segment, before[1], begin) or _CONJUNCTION.search(segment, cue[1], begin):
        return False
    for start, end, _ in mentions:
        if end <= begin:
            continue
        if start > begin and not _LISTED.fullmatch(segment, place, start):
            return False
        joined = _ALTERNATIVE.search(segment, place, start)
        if joined:
            hedged = any(begin < other[0] < joined.start() and other.row.says in _SPEAKS for other in cues)
            return not hedged and _FOUND.search(segment, begin, joined.start()) is None
        place = end
    return False


def _of_the_next(segment: str, cue: Match, index: int, mentions: list[Match]) -> bool:
    """Whether "versus" only gives alternatives of a later finding ("effusions and infiltrate versus crowding")."""
    if index + 1 == len(mentions) or cue[0] < mentions[index + 1][1]:
        return False
    return _BESIDES.search(segment, mentions[index][1], mentions[index + 1][0]) is not None


def _beside_the_device(segment: str, cue: Match, index: int, mentions: list[Match]) -> bool:
    """Whether a cue near a device refers to something else: its tip, its place, or another finding."""
    cue_start, cue_end, row = cue
    start, end, _ = mentions[index]
    before = mentions[index - 1].end if index else 0
    if row.says == "silent":
        return False
    if _PART_OF.search(segment, before, start) or _ITS_PART.match(segment, end):
        return True
    if cue_start >= end:
        return _PLACE.match(segment, cue_end) is not None
    if row.says != "negative" or row.side != "before" or cue_end > start:
        return False
    # "no pneumothorax, right PICC in place": devices are rarely denied, and never at the end of such a list
    another = index > 0 and mentions[index - 1].row.findings != ("support devices",)
    met = another and cue_end <= before and not _ALTERNATIVE.search(segment, before, start)
    return met or _PLACED.match(segment, end) is not None
