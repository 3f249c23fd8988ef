"""Doubt: whether the rules may have misread a mention of a finding.

A mention has features, for instance each word that follows it where it is read as affirmed.
``doubt.tsv`` has a weight for some of them, and the mention is doubtful if the sum is positive.
``bench/doubt.py`` learns the weights from sentences that the rules read rightly and wrongly. No
reading depends on them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import repeat

from pacer.commitments.anchor import POLARITIES
from pacer.commitments.rules.table import Match, lines

#: What the three lists of :func:`features` are of: the words before a mention, those after it, and
#: the mention itself.
PLACES = ("before ", "after ", "")
STATES = ("unstated", *POLARITIES)
_ROWS: defaultdict[str, dict[str, int]] = defaultdict(dict)
for _line in lines("doubt.tsv"):
    _ROWS[_line["of"]][_line["feature"]] = int(_line["weight"])
#: For each state of a mention, the weights of its three lists of features.
WEIGHTS = {state: [_ROWS[place + state] for place in PLACES] for state in STATES}


def is_doubtful(state: str, found: Iterable[Sequence[str]]) -> bool:
    """Whether the rules may have misread a mention that has this state and these
    :func:`features`."""
    total = 0
    for weights, ones in zip(WEIGHTS[state], found, strict=True):
        total += sum(map(weights.get, ones, repeat(0)))
    return total > 0


def features(
    text: str, mentions: Sequence[Match], states: Sequence[str], idle: Set[str]
) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Yield the features of each mention of a segment, as three lists:

    - the words before the mention, and those after it, outside the names of findings; ``^`` and
      ``$`` are the start and the end of the segment;
    - the words directly before and after it (``without _``, ``_ is``); its findings (``= edema``);
      the state of the next mention (``, positive``); whether another mention of the finding has
      another state (``two states``); the meanings of the cues that decide nothing (``idle
      uncertain``); ``^ _ $`` if no word stands beside it; and ``any``.

    ``states``: how each mention is read. ``idle``: the meanings of the cues that decide nothing.
    """
    words, breaks, end = ["^"], [0], 0
    for mention in mentions:
        words += text[end : mention.start].split()
        breaks.append(len(words))
        end = mention.end
    words += text[end:].split()
    words.append("$")
    breaks.append(len(words))
    shared = ["any"]
    shared += ["idle " + meaning for meaning in idle]
    if len(words) == 2:
        shared.append("^ _ $")
    states_of = defaultdict[str, set[str]](set)
    if len(mentions) > 1:
        for mention, state in zip(mentions, states, strict=True):
            for finding in mention.row.findings:
                states_of[finding].add(state)
    disputed = {finding for finding, different in states_of.items() if len(different) > 1}
    for number, mention in enumerate(mentions, start=1):
        here, own = breaks[number], shared.copy()
        if breaks[number - 1] < here:
            own.append(words[here - 1] + " _")
        if here < breaks[number + 1]:
            own.append("_ " + words[here])
        if number < len(mentions):
            own.append(", " + states[number])
        for finding in mention.row.findings:
            own.append("= " + finding)
            if finding in disputed:
                own.append("two states")
        yield words[:here], words[here:], own
