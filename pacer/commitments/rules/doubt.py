"""Doubt: whether the rules may have misread the findings of a segment.

A segment has features, for instance the words in it where a finding is read as affirmed.
``doubt.tsv`` has a weight for some of them, and the findings of a segment are doubtful if the sum
is positive. ``bench/doubt.py`` learns the weights from sentences that the rules read rightly and
wrongly. No reading depends on them.
"""

from collections import defaultdict
from collections.abc import Sequence, Set
from itertools import chain, pairwise, repeat

from pacer.commitments.rules.table import Match, lines

#: The weights of the features of a segment and of each state in it.
WEIGHTS: defaultdict[str, dict[str, int]] = defaultdict(dict)
for _line in lines("doubt.tsv"):
    WEIGHTS[_line["of"]][_line["feature"]] = int(_line["weight"])
#: The feature for up to nine words between a finding and a cue before or behind it.
_ROUNDED = (0, 1, 2, 3, 4, 4, 6, 6, 6, 9)
_AFTER_CUE = tuple(f"cue before, {number} words" for number in _ROUNDED)
_BEFORE_CUE = tuple(f"cue after, {number} words" for number in _ROUNDED)
_FINDINGS = tuple(f"{number} findings between" for number in range(5))
_COMMAS = tuple(f"{number} commas between" for number in range(4))


def is_doubtful(
    text: str,
    mentions: Sequence[Match],
    states: Sequence[str | None],
    cues: Sequence[Match | None],
    commas: Sequence[int],
    idle: Set[str],
) -> bool:
    """Whether the rules may have misread a segment. ``states`` and ``cues``: how each mention is
    read, and the cue that decides it. ``idle``: the meanings of the cues that decide nothing."""
    total = 0
    for kind, found in features(text, mentions, states, cues, commas, idle).items():
        total += sum(map(WEIGHTS[kind].get, found, repeat(0)))
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

    Each ``segment`` has ``any``. If a finding is read as denied, there are

    - ``before negative`` and ``after negative``: the words before and after the finding, outside
      the names of findings; ``^`` and ``$`` are the start and the end of the segment;
    - ``negative``: the words directly before and after it (``without _``, ``_ is``); the finding
      (``= edema``); the state of the next finding (``, positive``); whether another mention of the
      finding has another state (``two states``); cues that decide nothing (``idle uncertain``); and
      what lies between the finding and the cue that decides its state (:func:`_distance`).

    The other states have the same.
    """
    gaps, end = [], 0
    for mention in mentions:
        gaps.append(text[end : mention.start].split())
        end = mention.end
    gaps.append(text[end:].split())
    gaps[0].insert(0, "^")
    gaps[-1].append("$")
    words = list(chain.from_iterable(gaps))
    found = defaultdict[str, set[str]](set)
    found["segment"].add("any")
    kinds = [state or "unstated" for state in states]
    read: dict[str, str] = {}
    passed = 0
    for mention, kind, cue, (before, after) in zip(
        mentions, kinds, cues, pairwise(gaps), strict=True
    ):
        passed += len(before)
        found[f"before {kind}"].update(words[:passed])
        found[f"after {kind}"].update(words[passed:])
        own = found[kind]
        if before:
            own.add(before[-1] + " _")
        if after:
            own.add("_ " + after[0])
        if cue:
            own.update(_distance(text, mention, cue, mentions, commas))
        for finding in mention.row.findings:
            own.add("= " + finding)
            if read.setdefault(finding, kind) != kind:
                own.add("two states")
    for kind, following in pairwise(kinds):
        found[kind].add(", " + following)
    for kind in set(kinds):
        found[kind].update(f"idle {meaning}" for meaning in idle)
    return found


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
