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
#: The words of the train reports of Open-I and the phantom.
SEEN = frozenset(lines("seen.tsv")[0]["words"].split())


def is_doubtful(
    text: str, mentions: Sequence[Match], states: Sequence[str | None], idle: Set[str]
) -> bool:
    """Whether the rules may have misread a segment in which the mentions have these states.
    ``idle``: the meanings of the cues that decide nothing."""
    total = 0
    for kind, found in features(text, mentions, states, idle).items():
        total += sum(map(WEIGHTS[kind].get, found, repeat(0)))
    return total > 0


def features(
    text: str, mentions: Sequence[Match], states: Sequence[str | None], idle: Set[str]
) -> dict[str, set[str]]:
    """Return the features of a segment.

    Of the segment: ``any``; ``1 new``, ``2 new``, ``3 new``: at least so many words are not in
    ``seen.tsv``. Of each state that a finding has in it:

    - ``without``: a word outside the names; ``^`` and ``$`` are the start and the end;
    - ``without _`` and ``_ is``: the word before and after the finding;
    - ``= edema``: the finding;
    - ``, positive``: the state of the next finding;
    - ``two states``: another mention of the finding has another state;
    - ``idle negative``: a denial in the segment decides nothing.
    """
    gaps, end = [], 0
    for mention in mentions:
        gaps.append(text[end : mention.start].split())
        end = mention.end
    gaps.append(text[end:].split())
    gaps[0].insert(0, "^")
    gaps[-1].append("$")
    words = set(chain.from_iterable(gaps))
    new = [word for word in words - SEEN if len(word) > 1 and word.isalpha()]
    words |= {f"idle {meaning}" for meaning in idle}
    kinds = [state or "unstated" for state in states]
    found = {kind: words.copy() for kind in kinds}
    read: dict[str, str] = {}
    for mention, kind, (before, after) in zip(mentions, kinds, pairwise(gaps), strict=True):
        if before:
            found[kind].add(before[-1] + " _")
        if after:
            found[kind].add("_ " + after[0])
        for finding in mention.row.findings:
            found[kind].add("= " + finding)
            if read.setdefault(finding, kind) != kind:
                found[kind].add("two states")
    for kind, following in pairwise(kinds):
        found[kind].add(", " + following)
    found["segment"] = {"any", *("1 new", "2 new", "3 new")[: len(new)]}
    return found
