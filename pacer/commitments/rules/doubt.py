"""Doubt: whether something stands beside a finding that could turn its state and that no rule has
read.

The rules take each word that they do not know for one without effect. ``doubt.tsv`` has the words
that were seen beside findings without effect, and words that can turn a statement. Words that a
name or a cue has read count for nothing; the others have a weight, and so has a cue that decides
nothing. Where the weights of a segment reach :data:`_DOUBTFUL`, its findings are doubtful. No
reading depends on it.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from pacer.commitments.rules.table import Match, lines

#: The weight that makes a segment doubtful.
_DOUBTFUL = 5
#: The weights of a cue that decides nothing, by what it says; of an unknown word; of a finding of
#: which nothing is said; and of a first word that seldom begins a statement.
_UNUSED = {"uncertain": 4, "hint": 2, "silent": 2, "negative": 5, "instead": 4}
_UNKNOWN, _SILENT, _OPENS = 1, 3, 3
#: What words such as "unchanged" take from the weight of a finding that no cue decides.
_OF_SURE = 2
#: A segment of more words than these has a weight of one, and of two.
_LONG, _LONGER = 12, 18

_TABLE = lines("doubt.tsv")
_TURNING = [
    (re.compile(rf"(?:{line['words']})$"), int(line["weight"]))
    for line in _TABLE
    if line["kind"] == "turning"
]
_SURE = re.compile("|".join(rf"\b(?:{x['words']})\b" for x in _TABLE if x["kind"] == "sure"))
_FIRST, _HARMLESS = (
    {word for line in _TABLE if line["kind"] in kinds for word in line["words"].split()}
    for kinds in (["first"], ["harmless", "seen"])
)
_NUMBER = re.compile(r"=|[^a-z]*$|0+[a-z]{0,2}$")
#: What else a denial may deny: "the effusion is not loculated".
_OBJECT = re.compile(
    r"(?:no|not|without) (?!(?:of|in|on|at|to|for|that|is|are|the|an?|be|left|right)\b)[a-z]{4,}"
)
#: Cues that say what is denied of a finding, unlike other clauses.
_NO = re.compile(r"(?:no|without|nor|lack|absence|failure)\b")


#: How a sentence that names no finding may take back the one before it.
_TAKES_BACK = re.compile(
    r"(?:(?:none|not|neither|nor|no residu\w+|(?:today|now) (?:there|it|they|this))\b|,"
    r"|(?:it|this|that|they) (?:is|are|was|has|have|does|do|did) "
    r"(?:no|not|an?|now|been|since|gone)\b"
    r"|(?:the|its) (?:attending|lobe|lung|rest|latter|former|other|right|left) "
    r"(?:is|has|was|does|did|disagrees?)\b)"
)


def takes_back(segment: str) -> bool:
    """Whether a segment that names no finding may turn what the one before says."""
    return _TAKES_BACK.match(segment) is not None


@lru_cache(maxsize=1 << 16)
def _weight(word: str) -> int:
    """Return the weight of a word: none, if it is a number or was seen beside findings."""
    if _NUMBER.match(word):
        return 0
    word = word.removesuffix("'s")
    for pattern, weight in _TURNING:
        if pattern.match(word):
            return weight
    return _UNKNOWN * any(part not in _HARMLESS for part in re.findall(r"[a-z']{2,}", word))


def is_doubtful(
    text: str, mentions: Sequence[Match], cues: Sequence[Match], deciding: Sequence[Match | None]
) -> bool:
    """Whether a segment holds something that could turn what its ``deciding`` cues say."""
    words = text.split()
    total = (len(words) > _LONG) + (len(words) > _LONGER)
    if words[0] in _FIRST and "_".join(words[:2]) not in _HARMLESS:
        total += _OPENS
    if cues:
        total += _of_cues(text, cues, deciding)
    weights = [*map(_weight, words)]
    if any(weights):
        total += _of_words(text, words, weights, [*mentions, *cues])
    if total >= _DOUBTFUL and None in deciding and _SURE.search(text):
        total -= _OF_SURE
    return total >= _DOUBTFUL


def _of_cues(text: str, cues: Sequence[Match], deciding: Sequence[Match | None]) -> int:
    """Return the weight of the cues that decide nothing, and of findings of which nothing is
    said."""
    total, kinds = 0, {cue.row.says for cue in deciding if cue}
    for cue in cues:
        weight = _UNUSED.get(cue.row.says)
        if weight and cue not in deciding and "limits" not in text[cue.start : cue.end]:
            total += weight - (cue.row.says in kinds) - 2 * bool(_OBJECT.match(text, cue.start))
    return total + _SILENT * ("silent" in kinds)


def _of_words(
    text: str, words: Sequence[str], weights: Sequence[int], read: Sequence[Match]
) -> int:
    """Return the weight of the words that neither a name nor a cue has read."""
    total = place = 0
    for index, (word, weight) in enumerate(zip(words, weights, strict=True)):
        if (
            weight
            and not any(
                span.start <= place < span.end
                and (span.row.says != "clause" or _NO.match(text, span.start))
                for span in read
            )
            and _HARMLESS.isdisjoint(
                "_".join(words[first : first + 2]) for first in (index - 1, index) if first >= 0
            )
        ):
            total += weight
        place += len(word) + 1
    return total
