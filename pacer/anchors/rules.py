"""The rule-based extractor of commitments (paper, appendix "Commitment supervision").

The report is lower-cased, blanks are normalised, and it is cut at sentence ends and semicolons. For every mention of
a finding, uncertainty cues are looked for before negation cues, both in a local window that a new clause closes;
"no change" and its kin are no negation. A negative mention is only a candidate while later mentions are inspected;
the first positive or uncertain mention decides. There is no temporal resolver: "stable", "resolved" and "no new" have
no meaning beyond these surface rules. A statement of normal size ("the heart is normal in size") denies the finding
of enlargement. Works on raw reports and on cleaned ones.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pacer.anchors.anchor import Anchor
from pacer.anchors.patterns import MENTIONS, NORMAL_MENTIONS, compile_cues, compile_mentions
from pacer.anchors.vocabulary import FINDINGS, POLARITIES

__all__ = ["RULES_VERSION", "Anchor", "extract_anchor"]

#: Recorded in the audit.
RULES_VERSION = "paper"

#: Characters before and after a mention in which a cue may stand.
BEFORE, AFTER = 90, 45

_MENTION = compile_mentions()
_CUE = compile_cues()
_STATES = {name: findings for name, findings, _ in MENTIONS}
_SEGMENT_END = re.compile(r"[.;!]+(?!\d)|(?<=\w\?)\s")
_TO_BLANK = str.maketrans(dict.fromkeys(",:/\\()[]{}\"_*&+", " "))
_COORDINATED = re.compile(r"\s+(?:(or|and|nor)\s+)?(?:(?!is\b|are\b|with|no\b|but\b|there\b|the\b)[\w-]+\s+){0,3}")

#: Start, end and kind of a cue in a segment.
_Cue = tuple[int, int, str]


def extract_anchor(report: str) -> Anchor:
    """The findings that a report affirms, denies or leaves uncertain; a finding it does not mention is in no field."""
    verdict: dict[str, str] = {}
    for segment in _SEGMENT_END.split(report.lower().translate(_TO_BLANK)):
        for finding, polarity in _read_segment(" ".join(segment.split())):
            if verdict.get(finding, "negative") == "negative":
                verdict[finding] = polarity
    fields = (tuple(f for f in FINDINGS if verdict.get(f) == name) for name in POLARITIES)
    return Anchor(*fields)


@lru_cache(maxsize=1 << 16)  # most sentences of a corpus occur many times
def _read_segment(segment: str) -> tuple[tuple[str, str], ...]:
    """The mentions of one segment in order: finding and polarity."""
    mentions = [(m.start(), m.end(), m.lastgroup or "") for m in _MENTION.finditer(segment)]
    if not mentions:
        return ()
    cues = [(cue.start(), cue.end(), cue.lastgroup or "") for cue in _CUE.finditer(segment)]
    read = []
    for index, (_, _, name) in enumerate(mentions):
        if _STATES[name]:
            polarity = _polarity(segment, mentions, index, cues)
            read += [(finding, polarity) for finding in _STATES[name]]
    return tuple(read)


def _polarity(segment: str, mentions: list[_Cue], index: int, cues: list[_Cue]) -> str:
    """positive, negative or uncertain: what the cues around one mention say."""
    start, end, name = mentions[index]
    floor, ceiling = start - BEFORE, min(end + AFTER, _end_of_coordination(segment, mentions, index))
    for cue_start, cue_end, kind in cues:
        if kind == "clause" and cue_end <= start:
            floor = max(floor, cue_end)
        elif kind in ("clause", "statement") and cue_start >= end:
            ceiling = min(ceiling, cue_start)
    kinds = set()
    for cue_start, cue_end, kind in cues:
        if floor <= cue_start < end and not _spent(cue_end, start, mentions, cues):
            kinds.add(kind.removesuffix("_before").removesuffix("_around"))
        elif end <= cue_start < ceiling:
            kinds.add(kind.removesuffix("_after").removesuffix("_around"))
    if "uncertain" in kinds or ("hint" in kinds and "negative" not in kinds):
        return "uncertain"
    return "negative" if "negative" in kinds or name in NORMAL_MENTIONS else "positive"


def _end_of_coordination(segment: str, mentions: list[_Cue], index: int) -> int:
    """Where the text that follows a mention stops speaking of it: at the next finding that is not listed with it
    ("effusion or pneumothorax is not seen" speaks of both, "effusion, pneumothorax is not seen" does not)."""
    end, conjunction = mentions[index + 1][0] if index + 1 < len(mentions) else len(segment), False
    for here, following in zip(mentions[index:], mentions[index + 1 :]):
        listed = _COORDINATED.fullmatch(segment, here[1], following[0])
        if not listed:
            return following[0] if conjunction else end
        conjunction = conjunction or listed[1] is not None
    return len(segment) if conjunction else end


def _spent(cue_end: int, start: int, mentions: list[_Cue], cues: list[_Cue]) -> bool:
    """Has a new statement begun between a cue and the mention, after the cue has met another finding?"""
    for begin, _, kind in cues:
        if kind == "statement" and cue_end <= begin < start:
            return any(cue_end <= other[0] and other[1] <= begin for other in mentions)
    return False
