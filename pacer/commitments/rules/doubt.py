"""Doubt: whether the rules may have misread the findings of a segment.

A segment has features, for instance words beside a finding that is read as affirmed. ``doubt.tsv``
has a weight for some of them, and the findings of a segment are doubtful if the sum is positive.
``bench/doubt.py`` learns the weights from sentences that the rules read rightly and wrongly. No
reading depends on them.
"""

from collections.abc import Sequence
from itertools import pairwise

from pacer.commitments.rules.table import Match, lines

#: The weight of each feature that counts.
WEIGHTS = {line["feature"]: float(line["weight"]) for line in lines("doubt.tsv")}
#: The words of the train reports of Open-I and the phantom.
SEEN = frozenset(lines("seen.tsv")[0]["words"].split())


def is_doubtful(text: str, mentions: Sequence[Match], states: Sequence[str | None]) -> bool:
    """Whether the rules may have misread a segment in which the mentions have these states."""
    return sum(WEIGHTS.get(feature, 0.0) for feature in features(text, mentions, states)) > 0


def features(text: str, mentions: Sequence[Match], states: Sequence[str | None]) -> set[str]:
    """Return the features of a segment.

    - ``segment``: every segment has it.
    - ``negative without``: a finding is denied, and "without" is in the segment, outside the names.
    - ``without < negative``, ``negative > is``: the word before and after a finding that is denied
      (^ at the start, $ at the end, # beside another finding).
    - ``negative: edema``: edema is denied.
    - ``negative, positive``: a finding is denied and the next one affirmed.
    - ``two states``: the same finding has two states.
    - ``1 new``, ``2 new``, ``3 new``: at least so many words are not in ``seen.tsv``.
    """
    gaps = _words_between(text, mentions)
    words = {word for gap in gaps for word in gap}
    found = {f"{state} {word}" for state in {*states} for word in words}
    found |= {f"{state}, {following}" for state, following in pairwise(states)}
    new = sum(len(word) > 1 and word.isalpha() for word in words - SEEN)
    found.update(f"{number} new" for number in range(1, min(new, 3) + 1))
    found.add("segment")
    read: dict[str, str | None] = {}
    for place, (mention, state) in enumerate(zip(mentions, states, strict=True)):
        before, after = gaps[place], gaps[place + 1]
        found.add(f"{before[-1] if before else '#' if place else '^'} < {state}")
        found.add(f"{state} > {after[0] if after else '#' if mentions[place + 1 :] else '$'}")
        for finding in mention.row.findings:
            found.add(f"{state}: {finding}")
            if read.setdefault(finding, state) != state:
                found.add("two states")
    return found


def _words_between(text: str, mentions: Sequence[Match]) -> list[list[str]]:
    """Return the words before the first mention, between two mentions, and after the last one."""
    ends = [0, *(mention.end for mention in mentions)]
    starts = [*(mention.start for mention in mentions), len(text)]
    return [text[end:start].split() for end, start in zip(ends, starts, strict=True)]
