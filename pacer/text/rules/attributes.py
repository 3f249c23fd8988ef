"""Side, severity and course of the findings that a sentence affirms or leaves uncertain.

``attributes.tsv`` has the words and what they state. A phrase ends at a comma or at a word such as
"and" or "with". Its words describe the findings that it names, or those of the phrase before it:
"small effusion, unchanged". In "new effusion and atelectasis" and in "effusion and atelectasis are
stable" the course describes both.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from typing import NamedTuple

from pacer.core.attributes import VALUES, Attributes
from pacer.text.rules.sentence import Sentence
from pacer.text.rules.tables import NEGATIVE, OWN, longest

_VALUES = Attributes(*map(frozenset, VALUES.values()))
#: The words describe something that is no finding.
_ELSEWHERE = "elsewhere"
#: Words between phrases; "well" stands for "as well as".
_BREAKS = frozenset(
    (",", "and", "with", "but", "without", "well", "while", "whereas", "although", "though")
)
_AND = ("and", "well", "but")
VERBS = frozenset(
    (
        "is",
        "are",
        "was",
        "were",
        "has",
        "have",
        "had",
        "remain",
        "remains",
        "appear",
        "appears",
        "show",
        "shows",
    )
)
_PLACES = frozenset(("on", "at", "in", "within", "over", "along", "throughout", "involving"))
_PRONOUNS = frozenset(("it", "they", "this", "these", "both"))

#: The first word of the name of a finding, the word behind it, and the finding; empty if the
#: sentence does not affirm or hedge it.
Named = tuple[int, int, str]


class _Phrase(NamedTuple):
    """Part of a sentence."""

    words: Sequence[str]
    findings: Sequence[str]
    #: The word or mark that joins it to the phrase before it.
    joined: str
    attributes: Attributes


def attributes_of_sentences(sentences: Iterable[Sentence]) -> dict[str, list[Attributes]]:
    """Return the attributes of each finding that the sentences of a report affirm or leave
    uncertain, from each sentence that describes it."""
    found: dict[str, list[Attributes]] = {}
    before: Sequence[str] = ()
    for sentence in sentences:
        words = sentence.words
        if before and not (words[:1] and words[0] in _PRONOUNS and VERBS.issuperset(words[1:2])):
            before = ()
        if not (sentence.affirms or any(before)):
            continue
        named = tuple(
            (one.first, one.behind, "" if one.state in (None, NEGATIVE) else one.finding)
            for one in sentence.stated
        )
        stated: dict[str, Attributes] = {}
        for findings, attributes in _described(words, named):
            before = findings or before
            for finding in filter(None, before):
                known = stated.get(finding)
                stated[finding] = _both(known, attributes) if known else attributes
        for finding, attributes in stated.items():
            found.setdefault(finding, []).append(attributes)
    return found


@lru_cache(maxsize=1 << 12)
def _both(one: Attributes, other: Attributes) -> Attributes:
    return Attributes(*map(frozenset[str].union, one, other))


def united(stated: Iterable[Attributes]) -> Attributes:
    """Return the attributes that any of these state."""
    return reduce(_both, stated)


@lru_cache(maxsize=1 << 14)  # most sentences of a corpus recur
def _described(
    words: tuple[str, ...], named: tuple[Named, ...]
) -> Sequence[tuple[Sequence[str], Attributes]]:
    """Return the findings of each phrase of a sentence, and their attributes. In a list of
    findings, a course at the end, or at the beginning before "and", holds for all of them."""
    lists: list[list[_Phrase]] = []
    for phrase in _phrases(words, named):
        last = lists[-1][-1] if lists and lists[-1][-1].findings and phrase.findings else None
        if last and (
            phrase.joined == "and" or ("," in phrase.joined and not _has_verb(last.words))
        ):
            lists[-1].append(phrase)
        else:
            lists.append([phrase])
    described = []
    for phrases in lists:
        end = phrases[-1]
        is_plural = "and" in end.joined and not {"are", "have"}.isdisjoint(end.words)
        shared = end.attributes.course if is_plural else frozenset[str]()
        first = frozenset[str]()
        for phrase in phrases:
            first = first if phrase.joined == "and" else phrase.attributes.course
            course = phrase.attributes.course or shared or first
            if course != phrase.attributes.course:
                phrase = phrase._replace(attributes=phrase.attributes._replace(course=course))
            described.append((phrase.findings, phrase.attributes))
    return described


def _phrases(words: Sequence[str], named: Sequence[Named]) -> Iterator[_Phrase]:
    """Cut a sentence into phrases. A break inside a name is none; nor is one behind a phrase that
    describes the finding behind it ("on the left, a mass", "small right and large left
    effusions")."""
    stating, last = [*_stating(words)], len(words)
    start, joined = 0, ""
    for cut in (*_breaks(words, named), last):
        if start == cut < last:  # ", and"
            start, joined = cut + 1, joined + words[cut]
            continue
        findings = tuple([finding for begin, _, finding in named if start <= begin < cut])
        states = _union(states for _, end, states in stating if start < end <= cut)
        is_elsewhere = _ELSEWHERE in states
        if not (findings or is_elsewhere) and states and cut < last:
            ends = any(end == cut for _, end, _ in stating)
            if words[cut] == ",":
                leads = not start and (ends or words[start] in _PLACES)
            else:
                next_to = _union(one for begin, _, one in stating if 0 < begin - cut < 3)
                both = states & _VALUES.side and next_to & _VALUES.side
                leads = words[cut] in _AND and next_to and (ends or both)
                leads = leads and not (start and states & _VALUES.course)
            if leads and not _has_verb(words[start:cut]):
                continue
        if is_elsewhere and not findings:
            if joined == "with":  # "atelectasis with volume loss is unchanged"
                states &= _VALUES.course
            else:
                findings = ("",)
        yield _Phrase(words[start:cut], findings, joined, _attributes(states))
        start, joined = cut + 1, "".join(words[cut : cut + 1])


def _union(states: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*states)


def _stating(words: Sequence[str]) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Yield the place of words that state something, and what they state."""
    place = 0
    while place < len(words):
        end, states = place, None
        if words[place] in OWN.attributes:
            end, states = longest(OWN.attributes, words, place)
        if states:
            yield place, end, states
        place = max(end, place + 1)


def _breaks(words: Sequence[str], named: Sequence[Named]) -> Iterator[int]:
    for place, word in enumerate(words):
        if word in _BREAKS and not any(begin <= place < stop for begin, stop, _ in named):
            yield place


def _has_verb(words: Sequence[str]) -> bool:
    return any(
        word in VERBS and words[place - 1 : place] != ("there",) for place, word in enumerate(words)
    )


@lru_cache(maxsize=1 << 12)
def _attributes(states: frozenset[str]) -> Attributes:
    return Attributes(*(values & states for values in _VALUES))
