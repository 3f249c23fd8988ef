"""A mention with the text around it, and how far the text behind it refers to it: over the findings
that are listed with it, words between commas, and the verb that it shares with others.
"""

import re
from typing import NamedTuple

from pacer.commitments.rules.table import GROUPS, Match


class Passage(NamedTuple):
    """A mention with the mentions, cues and commas around it, each in the order of the text."""

    text: str
    before: list[Match]
    mention: Match
    after: list[Match]
    cues: list[Match]
    commas: list[int]


_LISTED, VERB, _CAUSE, _OR_BOTH = (
    re.compile(GROUPS[name]) for name in ("listed", "verb", "cause", "or_both")
)
_SUBJECT, _PLURAL_VERB, _INSIDE = (
    re.compile(GROUPS[name]) for name in ("subject", "plural_verb", "inside_finding")
)
_SHORT, _TAKES_UP = re.compile(GROUPS["short_phrase"]), re.compile(GROUPS["takes_up"])
CONJUNCTION = re.compile(r"\b(?:or|nor|andor|and)\b")
#: The kinds of cues at which a statement ends.
_LIMITS = ("clause", "statement", "degree", "instead")


def end_of_text(passage: Passage, resumed: int) -> int:
    """Return where the text behind a mention, and behind an aside, stops referring to it."""
    subjects, after = _end_of_subjects(passage), passage.after
    if after and is_inside(passage, passage.mention, after[0]):
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


def is_inside(passage: Passage, finding: Match, place: Match) -> bool:
    """Whether a mention only says where the one before it is ("a mass in the collapsed lobe")."""
    return _INSIDE.fullmatch(passage.text, finding.end, place.start) is not None and not any(
        finding.end <= comma < place.start for comma in passage.commas
    )


def _end_of_list(passage: Passage, subjects: int) -> int:
    """Return where the text after a mention stops referring to it: at the next finding that is not
    listed with it ("effusion or pneumothorax is not seen" refers to both, "effusion, pneumothorax
    is not seen" does not)."""
    here, joined, others = passage.mention, False, passage.after
    # "the heart is enlarged and effusion is lacking": a name with a verb is a statement of its own
    if others and VERB.search(passage.text, here.start, here.end):
        return others[0].start
    if others and is_inside(passage, here, others[0]):
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
            or CONJUNCTION.search(passage.text, here.end, following.start) is not None
            or _CAUSE.fullmatch(passage.text, here.end, following.start) is not None
            or _OR_BOTH.match(passage.text, following.end) is not None
        )
        here = following
    return others[0].start if others and not joined else len(passage.text)


def end_of_aside(passage: Passage) -> int:
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


def _end_of_subjects(passage: Passage) -> int:
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
