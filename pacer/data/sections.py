"""The sections of a report: findings, impression, indication and history.

In a MIMIC-CXR report file a heading starts a line, in capitals and before a colon. Some headings have their own line.
Headings in small letters (``Findings:``) count in a report that has none in capitals; in others, only those of the four
sections do, and not inside findings or an impression in capitals. The meanings of headings (``headings.yaml``) and the
rule that the last paragraphs of a report without headings are the conclusion, follow MIT-LCP/mimic-cxr's official code;
exceptions: docs/readings.md. In a table, where line breaks get lost, a heading has any letters and may follow a period.
"""

import re
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ruamel.yaml import YAML

from pacer.core.hygiene import LINE_ENDS, LOST

Name = Literal["findings", "impression", "indication", "history", "other"]


class Sections(NamedTuple):
    """Texts with white space collapsed, None if absent."""

    findings: str | None = None
    impression: str | None = None
    indication: str | None = None
    history: str | None = None


# the colon in a time of day (CHEST, 8:13 A.M.) does not end a heading
_HEADING = re.compile(
    r"^[ \t]*(?:([A-Z](?:[A-Z0-9 \t,/&().'#-]|(?<=\d):(?=\d)){0,90}|[A-Z][a-z]+(?: [A-Za-z]+){0,3}):(?!(?<=\d:)\d)"
    r"|((?:FINAL )?ADDENDUM|FINAL REPORT|FINDINGS?|IMPRESSION)[ \t\r]*$)",
    re.M,
)
_TEXT = YAML(typ="safe").load(Path(__file__).with_name("headings.yaml"))


def _any_of(*groups: list[str]) -> str:
    """Join expressions of ``headings.yaml``, with their fragments inserted."""
    return re.sub(r"<([\w ]+)>", lambda match: _TEXT["fragments"][match[1]], "|".join(chain(*groups)))


_MEANINGS: list[tuple[Name, re.Pattern[str]]] = [(name, re.compile(words)) for name, words in _TEXT["meanings"]]
_IMAGES = re.compile(_any_of(_TEXT["images"]))
_IN_SMALL_LETTERS = re.compile(_any_of(_TEXT["in small letters"]))
_IN_TABLES = re.compile(_any_of(_TEXT["in small letters"], _TEXT["in tables"], [*_TEXT["in tables as"].values()]))
#: Headings that precede the findings; in small letters within ``FINDINGS`` they are part of them.
_BEFORE = re.compile("COMP|EXAM|TECH|PROC|TYPE|DATE")
#: Capitals that say nothing about how the headings below them are written.
_TITLE = re.compile(r"\bREPORT$|\bADDENDUM\b|\bWET ?READ|\bPRELIMINARY\b")
_MAIN = ("findings", "impression")
#: What ends a line in a table's text, also as other formats write it.
_LINE_END = re.compile(rf"{LINE_ENDS}|\r|(?:\\r)?\\n|\\\.br\\|</?(?i:br|p|div|h[1-6]|li|[uo]l|t[rd]|b|strong)\b[^<>]*>")
#: What can be a heading in a table's text: any letters at the beginning of a line or sentence, capitals anywhere, and a
#: line with only the heading, or with a dash, brackets or asterisks for the colon.
_CANDIDATES = (
    re.compile(
        rf"^[ \t*#_\[•-]*(?:\d[.)] *)?(?=[A-Z])((?i:{_IN_TABLES.pattern}))"
        r"(?:[ \t\r*#_]*(?:$|[:：](?!\d)[*_]*|[-–] )|\]:?|\*\*)",
        re.M,
    ),
    re.compile(
        r"(?:^|(?<=[.!?;:])\s)[\s*#_]{0,20}([A-Za-z]{4,15}(?:(?: | ?[/&] ?)[A-Za-z]{2,14}){0,3})[ *_]*:(?!\d)[*_]*",
        re.M,
    ),
    re.compile(rf"(?<=\s)({_IN_TABLES.pattern})[ *_]*:(?!\d)[*_]*"),
)
_SIGNATURES: dict[str, str] = {kind: f"({_any_of(phrases)})" for kind, phrases in _TEXT["signatures"].items()}
_SIGNATURE = re.compile(
    rf"(?:^|(?<=[.!?;])\s)\s{{0,20}}(?:{'|'.join(_SIGNATURES.values())})[^\n]*", re.M | re.IGNORECASE
)
#: For polars: what every text with a heading or a signature holds.
MAY_HOLD_MORE = f"(?i){_any_of(_TEXT['hints'])}"
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_SENTENCE = re.compile(r"^[ \t]*[A-Z].*?\w{3}\.(?:\s|$)", re.M)


class _Part(NamedTuple):
    """The text between two headings."""

    name: Name
    text: str


def find_sections(text: str) -> Sections:
    """Find the sections of a report file. If a section occurs more than once, the last non-empty one counts, because
    preliminary readings precede the final report. Only the first paragraph of indication and history is used, because
    the rest of a report without more headings may follow it.
    """
    parts = _parts(text)
    sections = _sections(parts)
    if sections.findings is None and sections.impression is None:  # the last paragraphs of the report conclude it
        last = _BLANK_LINE.split(parts[-1].text, maxsplit=1)
        if len(last) == 2 and (conclusion := _words(last[1])):
            sections = _sections([*parts[:-1], parts[-1]._replace(text=last[0])])
            return sections._replace(impression=conclusion)
    return sections


@lru_cache(maxsize=16)  # the rows of a study have one text
def cut_report(text: str) -> tuple[Sections, list[str]]:
    """Find the sections of a whole report of a table, as :func:`find_sections` does, and name what is odd about it.
    Without any heading, all of it is findings. Signatures, dictation stamps, phone numbers and names below the report
    belong to no section."""
    lines = _LINE_END.sub("\n", text)
    for match, words in reversed(_headings(lines)):
        lines = f"{lines[: match.start()]}\n{words}:{lines[match.end() :]}"
    lines, signatures = _SIGNATURE.subn("", lines)
    notes = ["a signature, stamp, phone number or name, which is removed"] * (signatures > 0)
    parts = _parts(lines)
    if len(parts) == 1:
        lost = re.search(LOST, text)
        return Sections(findings=_words(lines)), notes + ["no headings, so all is findings"] * (not lost)
    further = [part.text.strip().partition("\n")[2] for part in parts if part.name in ("indication", "history")]
    sections = _sections(parts)
    if sections.impression and not sections.findings and _SENTENCE.search("\n".join([parts[0].text, *further])):
        notes.append("no findings section, but sentences above the headings or below the history")
    return find_sections(lines), notes


def more_than_a_section(text: str) -> dict[str, list[str]]:
    """Return the ``headings`` in a table's text, in capitals, and the kinds of ``signatures`` (also dictation stamps,
    phone numbers and names of persons) below it."""
    kinds = [[*_SIGNATURES][match.lastindex - 1] for match in _SIGNATURE.finditer(text) if match.lastindex]
    return {"headings": [words for _, words in _headings(text)], "signatures": kinds}


def _headings(text: str) -> list[tuple[re.Match[str], str]]:
    """Return the headings of a table's text in their order, with often misspelt words corrected."""
    candidates = dict[int, tuple[re.Match[str], str]]()
    for match in chain.from_iterable(pattern.finditer(text) for pattern in _CANDIDATES):
        words = _spelt(" ".join(re.sub("[/&]", " AND ", match[1].upper()).split()))
        if _IN_TABLES.fullmatch(words):
            words = next((name for name, also in _TEXT["in tables as"].items() if re.fullmatch(also, words)), words)
            candidates.setdefault(match.end(), (match, words))
    headings, in_findings = list[tuple[re.Match[str], str]](), False
    for _, (match, words) in sorted(candidates.items()):
        if match[1].isupper() or not (in_findings and _BEFORE.match(words)):
            headings.append((match, words))
            in_findings = match[1].isupper() and meaning_of(words) == "findings"
    return headings


def _parts(text: str) -> list[_Part]:
    headings = [(match, " ".join((match[1] or match[2]).split())) for match in _HEADING.finditer(text)]
    any_capitals = any(words.isupper() and not _TITLE.search(words) and meaning_of(words) for _, words in headings)
    parts: list[_Part] = []
    begin, name, main_in_capitals = 0, "other", False
    for match, words in headings:
        meaning = meaning_of(words, name)
        # a history must not become part of a target, wherever its heading is in small letters
        counts = meaning in (*_MAIN, "indication", "history") and not main_in_capitals
        if any_capitals and not words.isupper() and not counts:
            continue
        if meaning is not None:
            parts.append(_Part(name, text[begin : match.start()]))
            begin, name = match.end(), meaning
            # a heading that names the images may be the title of the report; it has no meaning within findings
            main_in_capitals = words.isupper() and meaning_of(words, "findings") in _MAIN
    return [*parts, _Part(name, text[begin:])]


def _sections(parts: list[_Part]) -> Sections:
    texts: dict[str, Any] = {}
    for part in parts:
        text = part.text
        if part.name in ("indication", "history"):
            text = _BLANK_LINE.split(text.strip(), maxsplit=1)[0]
        if part.name != "other" and (words := _words(text)):
            texts[part.name] = words
    return Sections(**texts)


@lru_cache(maxsize=4096)
def meaning_of(heading: str, within: Name = "other") -> Name | None:
    """Return the section that a heading begins, ``other`` for an unused section; None if it begins no section.

    Args:
        heading: without its colon, with single spaces. within: the section in which it occurs; a heading that names the
            images does not end findings or an impression.
    """
    spelt = _spelt(heading.upper())
    if not heading.isupper() and not _IN_SMALL_LETTERS.fullmatch(spelt):
        return None
    for name, words in _MEANINGS:
        if words.search(spelt):
            return name
    return "findings" if within not in _MAIN and _IMAGES.search(spelt) else None


@lru_cache(maxsize=4096)
def _spelt(heading: str) -> str:
    """Correct the often misspelt words of a heading."""
    return " ".join(
        next((known for known in _TEXT["often misspelt"] if len(word) > 5 and _one_slip(word, known)), word)
        for word in heading.split()
    )


def _one_slip(word: str, known: str) -> bool:
    """Whether a word differs from a known one by at most one extra, missing or wrong letter, or two swapped ones."""
    for _ in range(2):  # from the front, then from the back
        while word and known and word[0] == known[0]:
            word, known = word[1:], known[1:]
        word, known = word[::-1], known[::-1]
    return len(word) < 2 > len(known) or (len(word) == 2 and word == known[::-1])


def _words(text: str) -> str | None:
    return " ".join(text.split()) or None
