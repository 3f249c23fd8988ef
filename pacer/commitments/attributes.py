"""Side, severity and course of the findings that a report affirms or leaves uncertain, read by rules.

A phrase ends at a comma or at a word such as "and" or "with". Its words describe the findings that it names, or those
of the phrase before it: "small effusion, unchanged". In "new effusion and atelectasis" and in "effusion and atelectasis
are stable" the course describes both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pacer.commitments.rules.extract import Mention, find_mentions


class Attributes(NamedTuple):
    """What a report says of one finding: ``side`` (left, right; both: bilateral), ``severity`` (mild, moderate,
    severe) and ``course`` (new, worse, stable, improved); empty: nothing."""

    side: frozenset[str] = frozenset()
    severity: frozenset[str] = frozenset()
    course: frozenset[str] = frozenset()


_SENTENCE = re.compile(r"[^.;:\n]+")
#: What ends a phrase.
_BREAK = re.compile(r",|\b(?:and|with|but|without|as well as)\b")
#: "Slightly increased" is no severity, and "right atrium" no side.
_CHANGE = r"(?!\s+(?:interval\s+)?(?:increas|decreas|improv|wors|progress|larger|smaller|more|less|better))"
_PART = r"(?![\s-]+(?:atri|ventric|heart|lateral (?:decub|view|film)))"
_BOTH = r"bilateral\w*|both(?! (?:pa|frontal|views)\b)|bibasi?l\w+"
_WORDS = {
    "side": {"left": rf"left{_PART}|{_BOTH}", "right": rf"right{_PART}|{_BOTH}"},
    "severity": {
        "mild": rf"(?:mild|slight|minimal|subtle)(?:ly)?{_CHANGE}|small|tiny|trace|minor|faint",
        "moderate": rf"moderate(?:ly)?{_CHANGE}",
        "severe": rf"(?:severe|marked|massive|extensive)(?:ly)?{_CHANGE}|large",
    },
    "course": {
        "new": r"new(?:ly)?|interval (?:development|placement|appearance)|developed|development|developing",
        "worse": r"increas\w+|worse\w*|progress(?:ed|ing|ion)|larger|bigger|grow[ns]?|growing|enlarging"
        r"|more (?:prominent|extensive)|interval enlargement",
        "stable": r"stable|unchanged|(?:not|no)(?: significant| interval)* changed?|similar|persist\w*|again",
        "improved": r"decreas\w+|improv\w+|smaller|resolving|diminish\w+|less (?:prominent|extensive)",
    },
}
_PATTERNS = {
    kind: {value: re.compile(rf"\b(?:{words})\b", re.I) for value, words in values.items()}
    for kind, values in _WORDS.items()
}
_PLURAL = re.compile(r"\b(?:are|have)\b", re.I)


def read_attributes(report: str) -> dict[str, Attributes]:
    """Return the attributes of each finding that a raw or cleaned report affirms or leaves uncertain, over all of its
    mentions."""
    mentions = [mention for mention in find_mentions(report) if mention.polarity is not None]
    known = {mention.finding: Attributes() for mention in mentions if mention.polarity != "negative"}
    for sentence in _SENTENCE.finditer(report) if known else ():
        named: list[str] = []
        for phrase, words in _described(list(_phrases(sentence, mentions))):
            named = phrase.findings or named
            for finding in filter(None, named):
                known[finding] = Attributes(*(one | other for one, other in zip(known[finding], words, strict=True)))
    return known


class _Phrase(NamedTuple):
    """Part of a sentence: its text, the findings that it names (empty: one that it denies), whether "and" stands before
    it, and what it says."""

    text: str
    findings: list[str]
    joined: bool
    words: Attributes


def _described(phrases: list[_Phrase]) -> Iterator[tuple[_Phrase, Attributes]]:
    """Yield each phrase of a sentence with the attributes that it gives its findings; a course that a row of phrases
    joined by "and" has at its beginning or end holds for all of them."""
    rows: list[list[_Phrase]] = []
    for phrase in phrases:
        if phrase.joined and phrase.findings and rows and rows[-1][-1].findings:
            rows[-1].append(phrase)
        else:
            rows.append([phrase])
    for row in rows:
        first, last = row[0].words.course, row[-1].words.course
        shared = (last if _PLURAL.search(row[-1].text) else frozenset()) or first
        for phrase in row:
            yield phrase, phrase.words._replace(course=phrase.words.course or shared)


def _phrases(sentence: re.Match[str], mentions: list[Mention]) -> Iterator[_Phrase]:
    """Cut a sentence into phrases; a break inside a mention is none."""
    text, start, joined = sentence[0], 0, False
    spans = [
        (m.start - sentence.start(), m.end - sentence.start(), "" if m.polarity == "negative" else m.finding)
        for m in mentions
    ]
    breaks = [cut for cut in _BREAK.finditer(text) if not any(begin < cut.end() <= end for begin, end, _ in spans)]
    for cut in (*breaks, None):
        end = cut.start() if cut else len(text)
        part = text[start:end]
        findings = [finding for begin, _, finding in spans if start <= begin < end]
        stated = (
            frozenset(value for value, pattern in values.items() if pattern.search(part))
            for values in _PATTERNS.values()
        )
        yield _Phrase(part, findings, joined, Attributes(*stated))
        start, joined = (cut.end(), cut[0].lower() == "and") if cut else (end, False)
