"""Doubt: whether the rules may have misread the findings of a segment.

A segment has features, for instance the words in it where a finding is read as affirmed.
``doubt.tsv`` has a weight for some of them, and the findings of a segment are doubtful if the sum
is positive. ``bench/doubt.py`` learns the weights from sentences that the rules read rightly and
wrongly. No reading depends on them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise

from pacer.commitments.rules.table import Match, lines

#: The weights of the features of a segment and of each state in it.
WEIGHTS: defaultdict[str, dict[str, int]] = defaultdict(dict)
for _line in lines("doubt.tsv"):
    WEIGHTS[_line["of"]][_line["feature"]] = int(_line["weight"])
#: The features for up to nine words between a finding and a cue before or behind it.
_ROUNDED = (0, 1, 2, 3, 4, 4, 6, 6, 6, 9)
_AFTER_CUE = tuple(f"cue before, {number} words" for number in _ROUNDED)
_BEFORE_CUE = tuple(f"cue after, {number} words" for number in _ROUNDED)
#: The features for other findings, and for commas, between the two.
_FINDINGS = tuple(f"{number} findings between" for number in range(5))
_COMMAS = tuple(f"{number} commas between" for number in range(4))


def is_doubtful(found: Mapping[str, Set[str]]) -> bool:
    """Whether the rules may have misread a segment that has these :func:`features`."""
    total = 0
    for kind, ones in found.items():
        weights = WEIGHTS[kind]
        total += sum([weights[one] for one in weights.keys() & ones])
    return total > 0


def features(
    text: str,
    mentions: Sequence[Match],
    states: Sequence[str | None],
    cues: Sequence[Match | None],
    commas: Sequence[int],
    idle: Set[str],
) -> dict[str, set[str]]:
    """Return the features of a segment, by what they are features of.

    ``states`` and ``cues``: how each mention is read, and the cue that decides it. ``idle``: the
    meanings of the cues that decide nothing. Each ``segment`` has ``any``. If a finding is read as
    denied, there are

    - ``before negative`` and ``after negative``: the words before and after the finding, outside
      the names of findings; ``^`` and ``$`` are the start and the end of the segment;
    - ``negative``: the words directly before and after it (``without _``, ``_ is``); the finding
      (``= edema``); the state of the next finding (``, positive``); whether another mention of the
      finding has another state (``two states``); cues that decide nothing (``idle uncertain``); and
      what lies between the finding and the cue that decides its state (:func:`_distance`).

    The other states have the same.
    """
    words, breaks, end = ["^"], [0], 0
    for mention in mentions:
        words += text[end : mention.start].split()
        breaks.append(len(words))
        end = mention.end
    words += [*text[end:].split(), "$"]
    breaks.append(len(words))
    kinds = [state or "unstated" for state in states]
    found = {kind: {f"idle {meaning}" for meaning in idle} for kind in kinds}
    first, last = dict[str, int](), dict[str, int]()
    read: dict[str, str] = {}
    for number, (mention, kind, cue) in enumerate(zip(mentions, kinds, cues, strict=True), start=1):
        here, own = breaks[number], found[kind]
        first.setdefault(kind, here)
        last[kind] = here
        if breaks[number - 1] < here:
            own.add(words[here - 1] + " _")
        if here < breaks[number + 1]:
            own.add("_ " + words[here])
        if cue:
            own.update(_distance(text, mention, cue, mentions, commas))
        for finding in mention.row.findings:
            own.add("= " + finding)
            if read.setdefault(finding, kind) != kind:
                own.add("two states")
    for kind, following in pairwise(kinds):
        found[kind].add(", " + following)
    for kind, place in last.items():
        found["before " + kind] = set(words[:place])
        found["after " + kind] = set(words[first[kind] :])
    return found | {"segment": {"any"}}


def _distance(
    text: str, mention: Match, cue: Match, mentions: Sequence[Match], commas: Sequence[int]
) -> tuple[str, str, str]:
    """Return features for what lies between a cue and a finding: words, findings and commas."""
    if cue.start < mention.start:
        by_words, start, end = _AFTER_CUE, cue.end, mention.start
    else:
        by_words, start, end = _BEFORE_CUE, mention.end, cue.start
    num_words = len(text[start:end].split())
    num_findings = sum([start <= other.start < end for other in mentions])
    num_commas = sum([start <= comma < end for comma in commas])
    return by_words[min(num_words, 9)], _FINDINGS[min(num_findings, 4)], _COMMAS[min(num_commas, 3)]
