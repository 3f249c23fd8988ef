"""The sections of MIMIC-CXR's report files: findings, impression, indication and history.

A heading starts a line, in capitals and before a colon. Some headings have their own line. Headings
in small letters (``Findings:``) count in a report without headings in capitals. In other reports
only those of the four sections count, except inside findings or an impression with a heading in
capitals. The meanings of headings (``mimic_sections.yaml``) and the rule that the last paragraphs
of a report without headings are the conclusion follow MIT-LCP/mimic-cxr's official code, with the
exceptions listed in docs/readings.md.
"""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from pacer.core.io import yaml_beside

SectionName = Literal["findings", "impression", "indication", "history", "other"]


class Sections(NamedTuple):
    """The texts of the sections; None: absent."""

    findings: str | None = None
    impression: str | None = None
    indication: str | None = None
    history: str | None = None


# the colon in a time of day (CHEST, 8:13 A.M.) does not end a heading
_HEADING = re.compile(
    r"^[ \t]*(?:([A-Z](?:[A-Z0-9 \t,/&().'#-]|(?<=\d):(?=\d)){0,90}|[A-Z][a-z]+(?: "
    r"[A-Za-z]+){0,3}):(?!(?<=\d:)\d)"
    r"|((?:FINAL )?ADDENDUM|FINAL REPORT|FINDINGS?|IMPRESSION)[ \t\r]*$)",
    re.M,
)
_TEXT = yaml_beside(__file__, "mimic_sections.yaml")
_MEANINGS: list[tuple[SectionName, re.Pattern[str]]] = [
    (name, re.compile(words)) for name, words in _TEXT["meanings"]
]
_IMAGES = re.compile("|".join(_TEXT["images"]))
_IN_SMALL_LETTERS = re.compile("|".join(_TEXT["in small letters"]))
#: Titles, whose capitals do not imply that the headings below them are in capitals.
_TITLES = re.compile(r"\bREPORT$|\bADDENDUM\b|\bWET ?READ|\bPRELIMINARY\b")
_MAIN = ("findings", "impression")
_CONTEXT = ("indication", "history")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")


class _Part(NamedTuple):
    """The text from one heading to the next, without the heading."""

    name: SectionName
    text: str


def find_sections(text: str) -> Sections:
    """Find the sections, with white space collapsed. If a section occurs more than once, the last
    one that is not empty is used, because preliminary readings precede the final report. Only the
    first paragraph of indication and history is used, because the rest of a report without more
    headings may follow it. Without findings and impression, the last paragraphs of the report are
    the impression."""
    *others, last = _parts(text)
    sections = _sections([*others, last])
    first_paragraph, *rest = _BLANK_LINE.split(last.text, maxsplit=1)
    conclusion = _words(rest[0]) if rest else None
    if sections.findings or sections.impression or not conclusion:
        return sections
    above = _sections([*others, last._replace(text=first_paragraph)])
    return above._replace(impression=conclusion)


def _parts(text: str) -> list[_Part]:
    headings = [
        (match, " ".join((match[1] or match[2]).split())) for match in _HEADING.finditer(text)
    ]
    any_capitals = any(
        words.isupper() and not _TITLES.search(words) and meaning_of(words) for _, words in headings
    )
    parts: list[_Part] = []
    begin = 0
    last = _Part("other", "")
    main_in_capitals = False
    for match, words in headings:
        meaning = meaning_of(words, last.name)
        # a history must not become part of a target, wherever its heading is in small letters
        counts = meaning in (*_MAIN, *_CONTEXT) and not main_in_capitals
        if any_capitals and not words.isupper() and not counts:
            continue
        if meaning is not None:
            parts.append(last._replace(text=text[begin : match.start()]))
            begin = match.end()
            last = _Part(meaning, "")
            # a heading that names the images may be the title of the report; it has no meaning
            # within findings
            main_in_capitals = words.isupper() and meaning_of(words, "findings") in _MAIN
    return [*parts, last._replace(text=text[begin:])]


def _sections(parts: list[_Part]) -> Sections:
    texts: dict[str, str] = {}
    for name, text in parts:
        if name in _CONTEXT:
            text = _BLANK_LINE.split(text.strip(), maxsplit=1)[0]
        words = _words(text)
        if name != "other" and words:
            texts[name] = words
    return Sections(**texts)


@lru_cache(maxsize=4096)
def meaning_of(heading: str, section: SectionName = "other") -> SectionName | None:
    """Return the section that a heading begins, ``other`` for an unused section; None if it begins
    no section.

    Args:
        heading: without its colon, with single spaces.
        section: the section in which it occurs; a heading that names the images does not end
            findings or an impression.
    """
    spelt = " ".join(map(_spelt, heading.upper().split()))
    if not heading.isupper() and not _IN_SMALL_LETTERS.fullmatch(spelt):
        return None
    for name, words in _MEANINGS:
        if words.search(spelt):
            return name
    return "findings" if section not in _MAIN and _IMAGES.search(spelt) else None


def _spelt(word: str) -> str:
    """Correct an often misspelt word of a heading."""
    corrected = (
        correct for correct in _TEXT["often misspelt"] if _edit_distance_is_one(word, correct)
    )
    return next(corrected, word) if len(word) > 5 else word


def _edit_distance_is_one(word: str, correct: str) -> bool:
    """Whether a word differs from the correct one by at most one extra, missing or wrong letter, or
    two swapped ones."""
    while word and correct and word[0] == correct[0]:
        word = word[1:]
        correct = correct[1:]
    while word and correct and word[-1] == correct[-1]:
        word = word[:-1]
        correct = correct[:-1]
    is_one_letter = len(word) < 2 and len(correct) < 2
    return is_one_letter or (len(word) == 2 and word == correct[::-1])


def _words(text: str) -> str | None:
    return " ".join(text.split()) or None
