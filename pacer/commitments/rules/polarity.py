"""Polarity of a mention from the cues around it.

Uncertainty is checked before negation, and a mention without a cue is positive (a statement of
normality is negative). The paper's "local window" of a mention is its clause, and any list of
findings that a cue introduces or closes.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from pacer.commitments.rules.doubt import features, is_doubtful
from pacer.commitments.rules.table import GROUPS, Match


class Reading(NamedTuple):
    """The polarity of one mention (None: not stated), the cue that decided it, if any, and whether
    something beside it could turn it (``doubt.py``)."""

    polarity: str | None
    cue: Match | None
    doubtful: bool = False


class _Passage(NamedTuple):
    """A mention with the mentions, cues and commas around it, each in the order of the text."""

    text: str
    before: list[Match]
    mention: Match
    after: list[Match]
    cues: list[Match]
    commas: list[int]


#: Kinds of cues that decide a polarity, by precedence. Other kinds (exceptions, clauses, ...) only
#: limit the reach of these.
_DECIDING = (("uncertain",), ("negative", "instead"), ("hint",))
_DECIDING_KINDS = frozenset(("silent",)).union(*_DECIDING)
_LIMITS = ("clause", "statement", "degree", "instead")
#: Characters read on either side of a mention: twice the longest reach, because the list that names
#: the finding can continue behind it.
_WINDOW = 300
_START = attrgetter("start")


def read_mentions(
    segment: str, mentions: list[Match], cues: list[Match], commas: list[int]
) -> list[Reading]:
    """Read each mention by the cues that reach it."""
    readings = _readings(segment, mentions, cues, commas)
    states = [reading.polarity for reading in readings]
    deciding = [reading.cue for reading in readings]
    idle = {cue.row.says for cue in cues if cue not in deciding}
    if is_doubtful(features(segment, mentions, states, deciding, commas, idle)):
        return [reading._replace(doubtful=True) for reading in readings]
    return readings


def _readings(
    segment: str, mentions: list[Match], cues: list[Match], commas: list[int]
) -> list[Reading]:
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
        readings.append(_read(_Passage(segment, before, mention, after, around, commas)))
    return readings


def _decide(mention: Match, cues: list[Match]) -> Reading:
    """Apply the precedence: uncertain, then negative, then the mention's own polarity. Of several
    cues that agree, return the nearest."""
    if not cues:
        denied = mention.row.says in ("denies", "cleared")
        return Reading("negative" if denied else "positive", None)
    silent = [cue for cue in cues if cue.row.says == "silent"]
    if silent:
        cues = [cue for cue in cues if cue.start > silent[-1].start]
        if not cues:
            return Reading(None, silent[-1])
    uncertain, negative, hint = (
        [cue for cue in cues if cue.row.says in kinds] for kinds in _DECIDING
    )
    deciding = uncertain or negative or hint
    nearest = min(deciding, key=lambda cue: max(cue.start - mention.end, mention.start - cue.end))
    return Reading("negative" if deciding is negative else "uncertain", nearest)


def _read(passage: _Passage) -> Reading:
    text, (start, end, row) = passage.text, passage.mention
    if not row.findings and row.says in ("denies", "cleared"):
        return _decide(passage.mention, [])
    deciding = [cue for cue in passage.cues if cue.row.says in _DECIDING_KINDS]
    floor, ceiling, resumed = 0, 0, end
    for cue in passage.cues:
        if cue.end <= start and cue.row.says in ("clause", "instead"):
            floor = cue.start
    if any(cue.start >= end and cue.row.reach[1] for cue in deciding):
        resumed = _end_of_aside(passage)
        ceiling = _ceiling(passage, resumed)
    # "the effusion, drained on Monday, is large": what was is not what is
    past = resumed if resumed > end and _PAST.search(text, end, resumed) else end
    reaching = [
        cue
        for cue in deciding
        if _reaches(cue, passage.mention, floor, ceiling, resumed)
        and not (end <= cue.start and cue.end <= past)
        and not (cue.end <= start and _no_longer_applies(passage, cue))
        and not (row.findings == ("support devices",) and _beside_the_device(passage, cue))
        and not (cue.row.side == "between" and not _between_two(passage, cue))
    ]
    # "except for the PICC line, all tubes are out"
    if (
        passage.commas
        and end <= passage.commas[0]
        and reaching
        and passage.cues[0].row.says == "clause"
        and _EXCEPTION.match(text)
    ):
        reaching = [cue for cue in reaching if cue.start < passage.commas[0]]
    # "a mass in the collapsed lobe is not excluded"
    if (
        any(cue.start >= end for cue in reaching)
        and passage.before
        and _inside(passage, passage.before[-1], passage.mention)
    ):
        reaching = [cue for cue in reaching if cue.start < end]
    return _decide(passage.mention, reaching)


def _ceiling(passage: _Passage, resumed: int) -> int:
    """Return where the text behind a mention, and behind an aside, stops referring to it."""
    subjects, after = _end_of_subjects(passage), passage.after
    if after and _inside(passage, passage.mention, after[0]):
        subjects = max(subjects, after[0].end)
    begins, ceiling = max(subjects, resumed), _end_of_list(passage, subjects)
    end, commas, named = passage.mention.end, passage.commas, after[-1].start if after else 0
    for cue in passage.cues:
        if cue.start >= begins and cue.row.says in _LIMITS:
            # "the opacified right lung has cleared", "a fracture of the left rib is likely"
            if (
                cue.row.says == "degree"
                and (cue.start == end + 1 or cue.start > named)
                and not (commas and any(end <= place < cue.start for place in commas))
            ):
                continue
            return min(ceiling, cue.start)
    return ceiling


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


_LISTED, _COURSE, _TO_OR, _VERB = (
    re.compile(GROUPS[name]) for name in ("listed", "course", "to_or", "verb")
)
_CAUSE, _OR_BOTH, _SUCH_AS = (re.compile(GROUPS[name]) for name in ("cause", "or_both", "such_as"))
_PART_OF, _ITS_PART, _PLACE, _PLACED = (
    re.compile(GROUPS[name]) for name in ("part_of", "its_part", "place", "placed")
)
_ALTERNATIVE, _CONJUNCTION = (
    re.compile(r"\b(?:or|nor|andor)\b"),
    re.compile(r"\b(?:or|nor|andor|and)\b"),
)
_SUBJECT, _PLURAL_VERB, _DENIAL = (
    re.compile(GROUPS[name]) for name in ("subject", "plural_verb", "denial")
)
_INSIDE, _FRONTED, _PREDICATED, _EXCEPTION = (
    re.compile(GROUPS[name]) for name in ("inside_finding", "fronted", "predicated", "exception")
)
_SHORT, _TAKES_UP, _PAST = (
    re.compile(GROUPS[name]) for name in ("short_phrase", "takes_up", "past")
)
_EQUALS = re.compile(r" (?:is|are) (?:(?:an?|the|likely|probably|now|left|right|basal) )*")
_OR_A = re.compile(r"\bor an? (?:(?!and\b)[\w-]+ ){0,2}$")
_BESIDES = re.compile(r"\band\b(?! or\b)")


def _inside(passage: _Passage, finding: Match, place: Match) -> bool:
    """Whether a mention only says where the one before it is ("a mass in the collapsed lobe")."""
    return _INSIDE.fullmatch(passage.text, finding.end, place.start) is not None and not any(
        finding.end <= comma < place.start for comma in passage.commas
    )


def _end_of_list(passage: _Passage, subjects: int) -> int:
    """Return where the text after a mention stops referring to it: at the next finding that is not
    listed with it ("effusion or pneumothorax is not seen" refers to both, "effusion, pneumothorax
    is not seen" does not)."""
    here, joined, others = passage.mention, False, passage.after
    # "the heart is enlarged and effusion is lacking": a name with a verb is a statement of its own
    if others and _VERB.search(passage.text, here.start, here.end):
        return others[0].start
    if others and _inside(passage, here, others[0]):
        here, *others = others
    for following in others:
        if passage.text[here.end : following.start] == "/":
            joined, here = True, following
            continue
        listed = _LISTED.fullmatch(passage.text, here.end, following.start)
        if following.end <= subjects:
            joined, here = True, following
            continue
        if not listed:
            return following.start if joined else others[0].start
        one_thing = (
            following.start == here.end + 1 and here.row.findings == following.row.findings
        )  # "mass lesion"
        joined = (
            joined
            or listed[1] is not None
            or one_thing
            or _CONJUNCTION.search(passage.text, here.end, following.start) is not None
            or _CAUSE.fullmatch(passage.text, here.end, following.start) is not None
            or _OR_BOTH.match(passage.text, following.end) is not None
        )
        here = following
    return others[0].start if others and not joined else len(passage.text)


def _end_of_aside(passage: _Passage) -> int:
    """Return where the words between commas end that stand between a mention and its verb; the end
    of the mention if there are none."""
    text, end, commas = passage.text, passage.mention.end, passage.commas
    if len(commas) < 2 or commas[-2] < end:
        return end
    limit = passage.after[0].start if passage.after else len(text)
    inside = [place for place in commas if end <= place < limit]
    if len(inside) < 2 or not _SHORT.fullmatch(text, end, inside[0]):
        return end
    return next((place for place in inside[1:] if _TAKES_UP.match(text, place)), end)


def _end_of_subjects(passage: _Passage) -> int:
    """Return the end of the last finding that shares its verb with the mention ("the left effusion
    and right pneumothorax have resolved"); the end of the mention if none does."""
    last = here = passage.mention
    for following in passage.after:
        if not _SUBJECT.fullmatch(passage.text, here.end, following.start):
            break
        here = following
        if _PLURAL_VERB.match(passage.text, here.end):
            last = here
    return last.end


def _between_two(passage: _Passage, cue: Match) -> bool:
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


def _ends_at_comma(passage: _Passage, cue: Match) -> bool:
    """Whether a denial is the phrase before a statement about the mention ("without cardiomegaly,
    effusions of this size are unusual")."""
    text, start, before = passage.text, passage.mention.start, passage.before
    if not (cue.row.says == "negative" and before and passage.commas and _FRONTED.match(text)):
        return False
    first = max(cue.end, before[0].end)
    comma = next((place for place in passage.commas if first <= place < start), None)
    return (
        comma is not None
        and _PREDICATED.search(text, comma) is not None
        and _ALTERNATIVE.search(text, comma) is None
    )


def _no_longer_applies(passage: _Passage, cue: Match) -> bool:
    """Whether a cue before a mention applies to an earlier phrase, and a new statement has begun
    since."""
    text, (start, end, row) = passage.text, passage.mention
    findings_between = [earlier for earlier in passage.before if earlier.start >= cue.end]
    device = ("support devices",)
    # "removal of the tube, and atelectasis"
    removal = text.startswith("removal of", cue.end - len("removal of"))
    if _ends_at_comma(passage, cue) or (
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
        if other.row.says == "degree" and _TO_OR.match(text, other.start):
            begins = _CONJUNCTION.search(text, cue.end, other.start) is not None
        else:
            begins = denial or other.row.says in ("statement", "degree")
        # "resolution of the effusion and right consolidation": one denial of both; "pneumonia or an
        # enlarging left effusion": alternatives
        listed = (
            text.endswith((" of", " the", " are"), cue.start, cue.end)
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
    closed = _ALTERNATIVE.search(text, cue.end, last.end) and not _ALTERNATIVE.search(
        text, end, following
    )
    if (cue.row.says == "negative" and new and closed) or _VERB.search(text, start, end):
        return True
    if _EQUALS.fullmatch(text, last.end, start):  # "not thought to be pneumonia, is atelectasis"
        return True
    # "no pneumothorax, left effusion is unchanged", but not "no pneumothorax or effusion is
    # unchanged"
    return (
        _COURSE.match(text, end) is not None and _ALTERNATIVE.search(text, last.end, start) is None
    )


def _beside_the_device(passage: _Passage, cue: Match) -> bool:
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
    list_ended = another and not _ALTERNATIVE.search(text, previous.end, start)
    return list_ended or _PLACED.match(text, end) is not None


_QUALIFIER, _GENERAL, _PREDICATE, _STATED = (
    re.compile(GROUPS[name]) for name in ("qualifier", "general_object", "predicate", "stated")
)
_PROPERTY_OF, _EVIDENCE, _DENIED_DEGREE = (
    re.compile(GROUPS[name]) for name in ("property_of", "evidence", "denied_degree")
)
#: Names that are statements by themselves: "widened mediastinum", "heart enlarged".
_STATEMENT = re.compile(
    rf"\b(?:{GROUPS['large']}|widened|thickened|collapsed|congested|engorged)\b"
)
_AND, _TO_BE = re.compile(r" and\b(?! or\b)"), re.compile(r" (?:is|are|was|were) ")


def denies_a_property(text: str, denial: Match, finding: Match, listed: bool) -> bool:
    """Whether a denial before a finding denies something of, in or near the finding. ``listed``:
    other findings stand between them, which an "or" may join with this one."""
    found = _PROPERTY_OF.fullmatch(text, denial.end, finding.start)
    if found is None or (listed and _ALTERNATIVE.search(found["object"])):
        return False
    return not _EVIDENCE.fullmatch(found["object"].strip())


def ends_before(
    text: str, denial: Match, finding: Match, commas: Sequence[int], statements: Sequence[int]
) -> bool:
    """Whether a denial has an object of its own, which ends before the first finding behind it: at
    a comma, at "and", or where one of the ``statements`` begins. In "no focal process, effusion or
    pneumothorax" the list goes on."""
    begin, start, end = denial.end, finding.start, finding.end
    joined = _AND.search(text, begin, start)
    ends = [place for place in commas if begin <= place < start] + (
        [joined.start()] if joined else []
    )
    ends += [place - 1 for place in statements if begin + 1 < place <= start]
    if not ends:
        return False
    stop = min(ends)
    negated_verb = text.startswith(("not", "nil"), denial.start)
    spoken = text[begin:stop]
    words = _PREDICATE.sub("", spoken).split()
    if not spoken.strip() or not (negated_verb or (words and not _QUALIFIER.fullmatch(words[-1]))):
        return False
    if _TO_OR.match(text, stop + 1) or _SUCH_AS.match(text, stop):
        return False
    closed = (
        negated_verb
        or _STATEMENT.search(text, start, end)
        or _PREDICATE.search(spoken)
        or _TO_BE.match(text, stop)
        or _ALTERNATIVE.search(spoken)
    )
    if closed or any(stop < place <= start for place in statements) or _STATED.match(text, end):
        return True
    alone = _GENERAL.fullmatch(words[-1]) or not _DENIED_DEGREE.fullmatch(text, stop, start)
    return bool(alone) and end not in commas
