"""Side, severity and course of the findings that a report affirms or leaves uncertain, read by
rules.

``attributes.tsv`` has the words. A phrase ends at a comma or at a word such as "and" or "with". Its
words describe the findings that it names, or those of the phrase before it: "small effusion,
unchanged". In "new effusion and atelectasis" and in "effusion and atelectasis are stable" the
course describes both.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from pacer.commitments.rules.extract import find_mentions
from pacer.commitments.rules.table import Match, Patterns, Rule, expand, lines, pieces
from pacer.core.anchor import VALUES, Attributes

_VALUES = Attributes(*map(frozenset, VALUES.values()))


def _table() -> Iterator[Rule]:
    """Yield the rows of ``attributes.tsv`` with the names of groups replaced by their words, except
    the groups' own rows."""
    groups: dict[str, str] = {}
    for line in lines("attributes.tsv", "pacer.commitments"):
        words = expand(line["words"], groups)
        if line["group"]:
            groups[line["group"]] = f"(?:{words})"
        else:
            pattern = rf"(?:{words})(?!\w)".replace(" ", r"\s+")
            rule = Rule(line["says"], pattern, line["example"], line["reading"])
            yield rule._replace(pieces=pieces(line["pieces"]))


TABLE = tuple(_table())
_WORDS = Patterns(TABLE, before=r"\W")
#: A line break inside a sentence, where a long line was wrapped.
_WRAP = re.compile(r"(?<=[^\n]{40})\n(?=[ \t]*[a-z(])")
#: The end of a sentence, but not the period of a number or an abbreviation.
_END = re.compile(
    r";|\.(?!\d)(?!(?=\s[a-z])(?i:(?<=\b[lr]\.)|(?<=\b[lrs][tm]\.)|(?<=\bmod\.)|(?<=cr\.)|(?<=\bbilat\.)))"
)
_BREAK = re.compile(
    r",(?:\s*and\b)?|&|\b(?:and|with|but|without|as well as|while|whereas|although|though|w/)(?!\w)"
)
_PLURAL = re.compile(r"\b(?:are|have)\b")
_VERB = re.compile(r"(?<!there )\b(?:is|are|was|were|has|have|had|remains?|appears?|shows?)\b")
_PLACE = re.compile(r"\s*(?:on|at|in|within|over|along|throughout|involving)\b")
_PRONOUN = re.compile(
    r"\s*(?:it|they|this|these|both) (?:is|are|was|were|has|have|remains?|appears?)\b"
)


def read_attributes(report: str) -> dict[str, Attributes]:
    """Return the attributes of each finding that a raw or cleaned report affirms or leaves
    uncertain, over all of its mentions."""
    return {finding: _united(*stated) for finding, stated in sentence_attributes(report).items()}


@lru_cache(maxsize=1 << 13)  # several scores read each report of a slice
def sentence_attributes(report: str) -> dict[str, list[Attributes]]:
    """Return the attributes of each finding as :func:`read_attributes`, but separately for each
    sentence that describes it."""
    report = "\n".join([" ".join(line.split()) for line in report.split("\n")])
    mentions = [
        (start, end, "" if polarity in (None, "negative") else finding)
        for start, end, finding, polarity, *_ in find_mentions(report)
    ]
    known: dict[str, list[Attributes]] = {finding: [] for _, _, finding in mentions if finding}
    if not known:
        return known
    starts = [start for start, _, _ in mentions]
    text = _WRAP.sub(" ", report) if "\n" in report else report
    text = _END.sub("\n", text).replace("İ", "I").lower()  # "İ" would become two characters
    named: list[str] = []
    end = -1
    for sentence in text.split("\n"):
        begin, end = end + 1, end + 1 + len(sentence)
        if not sentence:
            continue
        inside = mentions[bisect_left(starts, begin) : bisect_left(starts, end)]
        if named and not _PRONOUN.match(sentence):
            named = []
        if not any(named) and not any(finding for _, _, finding in inside):
            continue
        places = tuple((start - begin, stop - begin, finding) for start, stop, finding in inside)
        stated: dict[str, Attributes] = {}
        for findings, words in described_phrases(sentence, places):
            named = findings or named
            for finding in filter(None, named):
                stated[finding] = _united(stated[finding], words) if finding in stated else words
        for finding, words in stated.items():
            known[finding].append(words)
    return known


def _united(*stated: Attributes) -> Attributes:
    if all(one == stated[0] for one in stated):
        return stated[0]
    return Attributes(*map(frozenset[str].union, Attributes(), *stated))


class _Phrase(NamedTuple):
    """Part of a sentence."""

    text: str
    #: The findings that it names. The empty name stands for a finding that is denied, and for
    #: anything that is not a finding.
    findings: list[str]
    #: The word or sign that joins it to the previous phrase.
    joined: str
    words: Attributes


#: Start and end of the mention of a finding in a sentence, and the finding.
_Span = tuple[int, int, str]


def described_phrases(
    sentence: str, mentions: tuple[_Span, ...]
) -> list[tuple[list[str], Attributes]]:
    """Return the findings of each phrase of a sentence, and their attributes. In a list of
    findings, a course at the end, or at the beginning before "and", holds for all of them."""
    rows: list[list[_Phrase]] = []
    for phrase in _phrases(sentence, mentions):
        before = rows[-1][-1] if rows and rows[-1][-1].findings and phrase.findings else None
        if before and (
            phrase.joined == "and" or ("," in phrase.joined and not _VERB.search(before.text))
        ):
            rows[-1].append(phrase)
        else:
            rows.append([phrase])
    described = []
    for row in rows:
        shared = (
            row[-1].words.course
            if "and" in row[-1].joined and _PLURAL.search(row[-1].text)
            else frozenset()
        )
        first: frozenset[str] = frozenset()
        for phrase in row:
            first = first if phrase.joined == "and" else phrase.words.course
            words, course = phrase.words, phrase.words.course or shared or first
            if course != words.course:
                words = words._replace(course=course)
            described.append((phrase.findings, words))
    return described


def _phrases(text: str, mentions: Sequence[_Span]) -> Iterator[_Phrase]:
    """Cut a sentence into phrases. Breaks inside of a mention are ignored."""
    breaks = [
        cut
        for cut in _BREAK.finditer(text)
        if not any(begin < cut.end() <= end for begin, end, _ in mentions)
    ]
    words = _WORDS.find(text, text.split())
    start = 0
    joined = ""
    for cut in (*breaks, None):
        end = cut.start() if cut else len(text)
        findings = [finding for begin, _, finding in mentions if start <= begin < end]
        inside = [word for word in words if start < word.end <= end]
        if cut and not findings and _leads(text[start:end], cut, inside, words):
            continue
        stated = _stated(inside)
        if (
            "elsewhere" in stated and not findings
        ):  # but "atelectasis with volume loss is unchanged"
            if joined == "with":
                stated &= _VALUES.course
            else:
                findings = [""]
        yield _Phrase(text[start:end], findings, joined, _attributes(frozenset(stated)))
        if cut:
            start = cut.end()
            joined = "".join(cut[0].split())


@lru_cache(maxsize=1 << 12)
def _attributes(stated: frozenset[str]) -> Attributes:
    return Attributes(*(values & stated for values in _VALUES))


def _stated(words: list[Match]) -> set[str]:
    return {value for word in words for value in word.row.says.split()} - {"nothing"}


def _leads(text: str, cut: re.Match[str], inside: list[Match], words: list[Match]) -> bool:
    """Whether a phrase without a finding describes the finding that follows it: "on the left, a
    mass", "small right and large left effusions"."""
    stated = _stated(inside)
    first = cut.start() == len(text)
    if (
        not stated
        or "elsewhere" in stated
        or _VERB.search(text)
        or (not first and stated & _VALUES.course)
    ):
        return False
    ends = inside[-1].end == cut.start() - text.endswith(" ")
    if cut[0][0] == ",":
        return first and (ends or _PLACE.match(text) is not None)
    following = _stated(
        [word for word in words if cut.end() < word.start <= cut.end() + len(" on the ")]
    )
    sides = stated & _VALUES.side and following & _VALUES.side
    return cut[0] in ("and", "as well as", "but", "&") and bool(following and (ends or sides))
