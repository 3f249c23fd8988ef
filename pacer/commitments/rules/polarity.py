"""Polarity of a mention from the cues around it.

Uncertainty is checked before negation, and a mention without a cue is positive (a statement of
normality is negative). The paper's "local window" of a mention is its clause, and any list of
findings that a cue introduces or closes.
"""

import re
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import NamedTuple

from pacer.commitments.rules.denials import (
    ALTERNATIVE,
    TO_OR,
    denies_a_property,
    ends_at_comma,
    ends_before,
)
from pacer.commitments.rules.passage import (
    CONJUNCTION,
    VERB,
    Passage,
    end_of_aside,
    end_of_text,
    is_inside,
)
from pacer.commitments.rules.table import GROUPS, Match


class Reading(NamedTuple):
    """A mention, its polarity (None: not stated), and the cue that decided it, if any."""

    mention: Match
    polarity: str | None
    cue: Match | None


#: Kinds of cues that decide a polarity, by precedence. Other kinds (exceptions, clauses, ...) only
#: limit the reach of these.
_DECIDING = (("uncertain",), ("negative", "instead"), ("hint",))
_DECIDING_KINDS = frozenset(("silent",)).union(*_DECIDING)
#: Characters read on either side of a mention: twice the longest reach, because the list that names
#: the finding can continue behind it.
_WINDOW = 300
_START = attrgetter("start")


def read_mentions(
    segment: str, mentions: list[Match], cues: list[Match], commas: list[int]
) -> list[Reading]:
    """Read each mention by the cues that reach it."""
    if not any(cue.row.says in _DECIDING_KINDS for cue in cues):
        return [_decide(mention, []) for mention in mentions]
    readings = []
    for index, mention in enumerate(mentions):
        low, high = mention.start - _WINDOW, mention.end + _WINDOW
        first, last = (
            bisect_left(mentions, low, key=_START),
            bisect_right(mentions, high, key=_START),
        )
        around = cues[bisect_left(cues, low, key=_START) : bisect_right(cues, high, key=_START)]
        before, after = mentions[first:index], mentions[index + 1 : last]
        readings.append(_read(Passage(segment, before, mention, after, around, commas)))
    return readings


def _decide(mention: Match, cues: list[Match]) -> Reading:
    """Apply the precedence: uncertain, then negative, then the mention's own polarity. Of several
    cues that agree, return the nearest."""
    if not cues:
        denied = mention.row.says in ("denies", "cleared")
        return Reading(mention, "negative" if denied else "positive", None)
    silent = [cue for cue in cues if cue.row.says == "silent"]
    if silent:
        cues = [cue for cue in cues if cue.start > silent[-1].start]
        if not cues:
            return Reading(mention, None, silent[-1])
    uncertain, negative, hint = (
        [cue for cue in cues if cue.row.says in kinds] for kinds in _DECIDING
    )
    deciding = uncertain or negative or hint
    nearest = min(deciding, key=lambda cue: max(cue.start - mention.end, mention.start - cue.end))
    return Reading(mention, "negative" if deciding is negative else "uncertain", nearest)


def _read(passage: Passage) -> Reading:
    text, (start, end, row) = passage.text, passage.mention
    if not row.findings and row.says in ("denies", "cleared"):
        return _decide(passage.mention, [])
    deciding = [cue for cue in passage.cues if cue.row.says in _DECIDING_KINDS]
    floor, ceiling, resumed = 0, 0, end
    for cue in passage.cues:
        if cue.end <= start and cue.row.says in ("clause", "instead"):
            floor = cue.start
    if any(cue.start >= end and cue.row.reach[1] for cue in deciding):
        resumed = end_of_aside(passage)
        ceiling = end_of_text(passage, resumed)
    # "the effusion, drained on Monday, is large": what was is not what is
    past = resumed if resumed > end and _PAST.search(text, end, resumed) else end
    reaching = [
        cue
        for cue in deciding
        if _reaches(cue, passage.mention, floor, ceiling, resumed)
        and not (end <= cue.start and (cue.end <= past or _is_of_another(passage, cue)))
        and not (cue.end <= start and _no_longer_applies(passage, cue))
        and not (row.findings == ("support devices",) and _beside_the_device(passage, cue))
        and not (cue.row.side == "between" and not _between_two(passage, cue))
    ]
    return _decide(passage.mention, reaching)


def _reaches(cue: Match, mention: Match, floor: int, ceiling: int, resumed: int) -> bool:
    """Whether a mention stands on the cue's side, within its reach and its clause, which lasts from
    ``floor`` to ``ceiling``, and goes on at ``resumed`` behind an aside. A cue inside the mention
    counts as before it; one around it refers to it only if it is silent ("if edema is suspected",
    not "the differential of the mass is")."""
    forwards, backwards = cue.row.reach
    if cue.start < mention.end:
        if cue.start < mention.start and mention.end < cue.end:
            return cue.row.says == "silent"
        return cue.start >= max(floor, mention.start - forwards) and forwards > 0
    from_here = resumed if cue.start >= resumed else mention.end
    return cue.start < min(ceiling, from_here + backwards)


_COURSE, _DENIAL = re.compile(GROUPS["course"]), re.compile(GROUPS["denial"])
_PART_OF, _ITS_PART, _PLACE, _PLACED = (
    re.compile(GROUPS[name]) for name in ("part_of", "its_part", "place", "placed")
)
_EXCEPTION, _PAST = re.compile(GROUPS["exception"]), re.compile(GROUPS["past"])
_EQUALS = re.compile(
    r"(?: (?:last|on|yesterday|(?:mon|tues|wednes|thurs|fri|satur|sun)day|night|week|month))*"
    r" (?:is|are) (?:(?:an?|the|in fact|really|actually|simply|just|merely|likely|probably|now|left"
    r"|right|basal) )*"
)
_OR_A = re.compile(r"\bor an? (?:(?!and\b)[\w-]+ ){0,2}$")
_BESIDES = re.compile(r"\band\b(?! or\b)")


def _is_of_another(passage: Passage, cue: Match) -> bool:
    """Whether a cue behind a mention is about another finding, because the mention is an exception,
    or only says where that one is."""
    commas = passage.commas
    # "except for the PICC line, all tubes are out"
    is_exception = (
        bool(commas)
        and passage.mention.end <= commas[0] <= cue.start
        and passage.cues[0].row.says == "clause"
        and _EXCEPTION.match(passage.text) is not None
    )
    # "a mass in the collapsed lobe is not excluded"
    is_place = bool(passage.before) and is_inside(passage, passage.before[-1], passage.mention)
    return is_exception or is_place


def _between_two(passage: Passage, cue: Match) -> bool:
    """Whether a hint such as "and/or" separates two findings that exclude each other. An opacity
    does not count: "atelectasis/infiltrate" names its cause."""
    # "effusions and infiltrate versus crowding" only gives alternatives of the infiltrate
    end, others = passage.mention.end, passage.after
    following = others[0].start if others else len(passage.text)
    if cue.start > following and _BESIDES.search(passage.text, end, following):
        return False
    if cue.row.says != "hint":
        return True
    if passage.mention.row.says == "denies" or passage.mention.row.findings == ("lung opacity",):
        return False
    mentions = [*passage.before, passage.mention, *passage.after]
    sides = [m for m in mentions if m.end <= cue.start][-1:] + [
        m for m in mentions if m.start >= cue.end
    ][:1]
    findings = {mention.row.findings for mention in sides}
    return len(findings) == 2 and ("lung opacity",) not in findings


def _no_longer_applies(passage: Passage, cue: Match) -> bool:
    """Whether a cue before a mention applies to an earlier phrase, and a new statement has begun
    since."""
    text, (start, end, row) = passage.text, passage.mention
    findings_between = [earlier for earlier in passage.before if earlier.start >= cue.end]
    device = ("support devices",)
    # "removal of the tube, and atelectasis"
    removal = text.startswith("removal of", cue.end - len("removal of"))
    if ends_at_comma(passage, cue) or (
        removal
        and row.findings != device
        and device in {one.row.findings for one in findings_between}
    ):
        return True
    denies = _DENIAL.match(text, cue.start)
    hedges = cue.row.says in ("hint", "uncertain")
    if (denies or hedges) and denies_a_property(
        text, cue, passage.mention, listed=bool(findings_between)
    ):
        return True
    if denies or text.startswith("history of", cue.start):
        statements = [
            other.start for other in passage.cues if other.row.says in ("statement", "degree")
        ]
        first = next(
            (one for one in findings_between if one.row.says != "nothing"), passage.mention
        )
        if ends_before(text, cue, first, passage.commas, statements):
            return True
    # (a name may itself begin with its degree: "increased markings")
    for other in (other for other in passage.cues if cue.end <= other.start <= start):
        # "likely atelectasis, no pneumothorax": a denial also begins a new statement
        denial = (
            cue.row.says != "negative"
            and other.row.says == "negative"
            and other.row.side == "before"
        )
        # a hedge needs any phrase to hedge: "possible scarring, no pneumothorax", unlike "probably
        # no pneumothorax"
        if denial and text.count(" ", cue.end, other.start) > 2:
            return True
        # "no consolidation, small effusion, or pneumothorax": a word of degree within the list that
        # the cue introduces
        if other.row.says == "degree" and TO_OR.match(text, other.start):
            begins = CONJUNCTION.search(text, cue.end, other.start) is not None
        else:
            begins = denial or other.row.says in ("statement", "degree")
        # "resolution of the effusion and right consolidation": one denial of both; "pneumonia or an
        # enlarging left effusion": alternatives
        listed = (
            text.endswith((" of", " the", " are", "includes", "comprises"), cue.start, cue.end)
            and "and " in text[other.start - 4 : other.start + 4]
        ) or (other.row.says == "degree" and _OR_A.search(text, cue.end, other.start) is not None)
        if (
            begins
            and not listed
            and any(earlier.end <= other.start for earlier in findings_between)
        ):
            return True
    if not findings_between:
        return False
    last, following = findings_between[-1], end + _WINDOW
    # "no effusion or edema, cardiomegaly": the "or" has closed the list, unless another one follows
    new = start == last.end + 1 and last.row.findings != row.findings
    closed = ALTERNATIVE.search(text, cue.end, last.end) and not ALTERNATIVE.search(
        text, end, following
    )
    if (cue.row.says == "negative" and new and closed) or VERB.search(text, start, end):
        return True
    if _EQUALS.fullmatch(text, last.end, start):  # "not thought to be pneumonia, is atelectasis"
        return True
    # "no pneumothorax, left effusion is unchanged", but not "no pneumothorax or effusion is
    # unchanged"
    return (
        _COURSE.match(text, end) is not None and ALTERNATIVE.search(text, last.end, start) is None
    )


def _beside_the_device(passage: Passage, cue: Match) -> bool:
    """Whether a cue near a device refers to something else: its tip, its place, or another
    finding."""
    text, (start, end, _) = passage.text, passage.mention
    previous = passage.before[-1] if passage.before else Match(0, 0, passage.mention.row)
    if cue.row.says == "silent":
        return False
    if _PART_OF.search(text, previous.end, start) or _ITS_PART.match(text, end):
        return True
    if cue.start >= end:
        return _PLACE.match(text, cue.end) is not None
    # "no pneumothorax, right PICC in place": devices are rarely denied, and never at the end of
    # such a list
    another = cue.end <= previous.end and previous.row.findings != ("support devices",)
    list_ended = another and not ALTERNATIVE.search(text, previous.end, start)
    return list_ended or _PLACED.match(text, end) is not None
