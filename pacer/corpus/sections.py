"""The sections of a report: findings, impression, indication and history.

In a MIMIC-CXR report file a heading starts a line, in capitals and before a colon. Some headings
have their own line. Headings in small letters (``Findings:``) count in a report without headings in
capitals. In other reports only those of the four sections count, except inside findings or an
impression with a heading in capitals. The meanings of headings (``headings.yaml``) and the rule
that the last paragraphs of a report without headings are the conclusion follow MIT-LCP/mimic-cxr's
official code, with the exceptions listed in docs/readings.md.

In a table, where line breaks get lost, a heading may be in small letters and follow a period; a
report may have several examinations, and findings without a heading.
"""

import re
from functools import lru_cache
from itertools import chain, pairwise
from typing import Literal, NamedTuple

from pacer.core.io import yaml_beside
from pacer.images.dicom import other_part
from pacer.tables.hygiene import LINE_ENDS, LOST, RESIDUE
from pacer.tables.values import quoted

SectionName = Literal["findings", "impression", "indication", "history", "other"]


class Sections(NamedTuple):
    """The texts of the sections; None: absent. White space is collapsed in the sections of a report
    file; line ends are kept in those of a table."""

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
_TEXT = yaml_beside(__file__, "headings.yaml")
_FRAGMENT = re.compile(r"<([a-z ]+)>")


def _any_of(*groups: list[str]) -> str:
    """Join expressions of ``headings.yaml``, with their fragments inserted."""
    joined = "|".join(chain(*groups))
    while _FRAGMENT.search(joined):
        joined = _FRAGMENT.sub(lambda match: _TEXT["fragments"][match[1]], joined)
    return joined


_MEANINGS: list[tuple[SectionName, re.Pattern[str]]] = [
    (name, re.compile(words)) for name, words in _TEXT["meanings"]
]
_IMAGES = re.compile(_any_of(_TEXT["images"]))
_IN_SMALL_LETTERS = re.compile(_any_of(_TEXT["in small letters"]))
_IMAGES_IN_TABLES = re.compile(_any_of(["<images>"]))
_TABLE_HEADINGS = {name: _any_of([words]) for name, words in _TEXT["in tables as"].items()}
_IN_TABLES = re.compile(
    _any_of(_TEXT["in small letters"], _TEXT["in tables"], [*_TABLE_HEADINGS.values()])
)
#: Headings that precede the findings; in small letters within ``FINDINGS`` they are part of them.
_BEFORE = re.compile("COMP|EXAM|TECH|PROC|TYPE|DATE")
#: Titles, whose capitals do not imply that the headings below them are in capitals.
_TITLES = re.compile(r"\bREPORT$|\bADDENDUM\b|\bWET ?READ|\bPRELIMINARY\b")
_MAIN = ("findings", "impression")
_CONTEXT = ("indication", "history")
#: Headings of text that follows the report.
_AFTER = re.compile("ADDEND|NOTIF|RECOM|WET|PRELIM|ATTEST")
#: Examinations other than radiographs.
_NO_X_RAY = re.compile(r"\b(?:CT|CTA|MRI?|US|PET)\b")
#: Line ends in a table's text, also as other formats write them.
_LINE_END = re.compile(
    rf"(?=[^\w\s.,:;/()'-]|[\r_\x0b-\x1f\x85\u2028\u2029-])(?:{LINE_ENDS}"
    rf"|{_any_of(_TEXT['line ends'])})"
)
_TEXT["fragments"]["in tables"] = _IN_TABLES.pattern
_CANDIDATES = [re.compile(_any_of([pattern]), re.M) for pattern in _TEXT["candidates"]]
#: Beginning of an examination, in a text whose headings begin lines: a heading, or the name of the
#: images.
_TITLE = re.compile(_any_of(_TEXT["titles"]), re.M)
_SENTENCE_BEGINS = re.compile(r"(?:(?<=[.!?])\s+|\n\s*(?=[A-Z]))(?=\S)|\A\s*")
_OF_IMAGE = re.compile(_any_of(_TEXT["about the images"]), re.I)
_OF_PATIENT = re.compile(_any_of(_TEXT["about the patient"]), re.I)
_LIMB = re.compile(_any_of(_TEXT["limbs"]), re.I)
_SIGNATURES: dict[str, str] = {
    kind: f"({_any_of(phrases)})" for kind, phrases in _TEXT["signatures"].items()
}
_SIGNATURE = re.compile(
    rf"(?:^|(?<=[.!?;])\s)\s{{0,20}}(?:{'|'.join(_SIGNATURES.values())})[^\n]*",
    re.M | re.IGNORECASE,
)
#: For polars: matches every text with a heading or a signature.
MAY_HOLD_MORE = f"(?i){_any_of(_TEXT['hints'])}"
_MARK = re.compile(r"[^\w\s.,:;/()'-]|_x")
#: A title of the images with a date, in a report with other headings.
_DATED_TITLE = re.compile(rf"^[ \t]*(?:{_any_of(['<images>'])}) *: *\d[\d/.: -]*$", re.M | re.I)
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)")
_SENTENCE = re.compile(
    r"^[ \t]*[A-Z].*?\w{3}\.(?:\s|$)|^[ \t]*[A-Z]?[a-z]+(?: [a-z]{2,})+[ \t]*$", re.M
)


class _Part(NamedTuple):
    """The text from one heading to the next."""

    name: SectionName
    text: str
    #: The heading, which the text does not contain; empty above the first heading.
    heading: str = ""


def find_sections(text: str) -> Sections:
    """Find the sections of a report file. If a section occurs more than once, the last one that is
    not empty is used, because preliminary readings precede the final report. Only the first
    paragraph of indication and history is used, because the rest of a report without more headings
    may follow it."""
    return _sections(_parts(text))


@lru_cache(maxsize=16)  # the rows of an examination have one text
def cut_report(text: str) -> tuple[Sections, dict[str, list[str]]]:
    """Find the sections of a whole report of a table, and warnings by audit topic.

    Sections with one name are joined, findings without a heading are found by their words, and of
    several examinations only that of the chest counts. A report without headings is all findings.
    Signatures, dictation stamps, phone numbers and names below the report belong to no section.
    """
    raw = _LINE_END.sub("\n", text)
    lines = raw
    for match, words in reversed(_headings(raw)):
        lines = f"{lines[: match.start()]}\n{words}:{lines[match.end() :]}"
    lines, num_signatures = _SIGNATURE.subn("", lines)
    if re.search("(?:FINDINGS|IMPRESSION):", lines):
        lines = _DATED_TITLE.sub("", lines)
    lines, has_others = _examination(lines)
    parts, where = _with_findings(_parts(lines))
    sections = _sections(parts, joined=True) if len(parts) > 1 else Sections(findings=_lines(lines))
    main = [part.heading for part in parts if part.name in _MAIN and part.text.strip()]
    below = any(_BLANK_LINE.search(part.text.strip()) for part in parts if part.name in _CONTEXT)
    outside = below or _SENTENCE.search(_TITLE.sub("", parts[0].text))
    unused = [
        part.heading
        for part in parts
        if part.name == "other" and part.heading and part.text.strip()
    ]
    capitals = [words for _, words in _written_headings(lines) if words.isupper()]
    unknown = [words for words in capitals if not (_OF_IMAGE.search(words) or meaning_of(words))]
    residue = RESIDUE.items() if _MARK.search(raw) else ()
    warnings: list[str] = []
    if num_signatures:
        warnings.append("a signature, stamp, phone number or name, which is removed")
    if len(parts) == 1 and sections.findings and not re.search(LOST, text):
        warnings.append("no headings, so all is findings")
    if has_others:
        warnings.append("another examination or version of the report, which is cut off")
    if where:
        warnings.append(f"findings without a heading, {where}")
    if len(set(main)) < len(main):
        warnings.append("a section that occurs twice, which is joined")
    if len(parts) > 1 and outside:
        warnings.append("text above the headings or below the history, which is not used")
    if any(_num_sentences(words) > 2 for words in (sections.indication, sections.history)):
        warnings.append("history or indication of more than two sentences")
    if any(map(_LIMB.search, capitals)):
        warnings.append("the heading of another part of the body, whose text is kept")
    return sections, {
        "whole_reports": warnings,
        "unused_sections": [quoted(words, words=5) for words in unused],
        "unknown_headings": [quoted(words, words=5) for words in unknown],
        "residue": [kind for kind, pattern in residue if re.search(pattern, raw)],
    }


def _num_sentences(text: str | None) -> int:
    return len(_SENTENCE_END.findall(text or ""))


class _Examination(NamedTuple):
    """A part of a report about one examination, or one version of the report."""

    titles: str
    text: str


def _examination(lines: str) -> tuple[str, bool]:
    """Return the text about the chest in its last version, and whether the report has more text. An
    examination ends before a title that is followed by a section that it already has, or that names
    another part of the body."""
    titles = list(_TITLE.finditer(lines))
    bounds = [title.start() for title in titles] + [len(lines)]
    examinations: list[_Examination] = []
    current = _Examination("", lines[: bounds[0]])
    for title, (start, stop) in zip(titles, pairwise(bounds), strict=True):
        name = " ".join(filter(None, title.groups()))
        stated = _stated(current.text.strip())
        is_elsewhere = bool(other_part(name)) != bool(other_part(current.titles))
        has_text = stated or (current.titles and _SENTENCE.search(_TITLE.sub("", current.text)))
        if (is_elsewhere and has_text) or stated & _stated(lines[start:stop]):
            examinations.append(current)
            current = _Examination("", "")
        current = _Examination(f"{current.titles} {name}", current.text + lines[start:stop])
    examinations.append(current)
    best = min(examinations, key=_misfit)  # the first of equally good ones
    return best.text, len(examinations) > 1


def _misfit(examination: _Examination) -> tuple[bool, bool, bool]:
    """Rank an examination; the lowest is that of the chest, in its final version."""
    titles = examination.titles
    return (
        other_part(titles) is not None,
        "FINAL REPORT" not in titles,
        _NO_X_RAY.search(titles) is not None,
    )


def _stated(text: str) -> set[str]:
    """Return which of findings and impression a text has. If the heading is a name of images, it
    replaces the name of the section."""
    parts = [part for part in _parts(text) if part.name in _MAIN and part.text.strip()]
    return {part.name if _is_main(part.heading) else part.heading for part in parts}


def _is_main(heading: str) -> bool:
    """Whether a heading begins findings or impression, and is not the name of images, which may be
    a title."""
    return meaning_of(heading, "findings") in _MAIN


def _with_findings(parts: list[_Part]) -> tuple[list[_Part], str]:
    """Give findings without a heading a part of their own, and return where they were: from the
    first sentence about the images on, below the last heading before the impression, else below the
    last heading."""
    has_findings = any(
        part.name == "findings" and part.text.strip() and _is_main(part.heading) for part in parts
    )
    # the name of images is a title, unless the findings follow it
    for place, part in enumerate(parts):
        is_title = part.name == "findings" and not _is_main(part.heading)
        if is_title and (has_findings or not re.search("[A-Za-z]{3}", part.text)):
            parts[place] = part._replace(name="other")
    if len(parts) == 1 or any(part.name == "findings" and part.text.strip() for part in parts):
        return parts, ""
    end = next((place for place, part in enumerate(parts) if part.name == "impression"), len(parts))
    for place in dict.fromkeys((end - 1, len(parts) - 1)):
        name, text, heading = parts[place]
        begins = [match.end() for match in _SENTENCE_BEGINS.finditer(text)]
        if heading:
            begins = begins[1:]
        of_image = [
            begin
            for begin, end_of_sentence in pairwise([*begins, len(text)])
            if _OF_IMAGE.search(text, begin, end_of_sentence)
            and not _OF_PATIENT.search(text, begin, end_of_sentence)
        ]
        if of_image and name not in _MAIN and not _AFTER.search(heading):
            above = _Part(name, text[: of_image[0]], heading)
            parts[place : place + 1] = [above, _Part("findings", text[of_image[0] :])]
            return parts, f"below {quoted(heading, words=5)}" if heading else "above the others"
    return parts, ""


def more_than_a_section(text: str) -> dict[str, list[str]]:
    """Return the ``headings`` in a table's text, in capitals, and the kinds of ``signatures`` (also
    dictation stamps, phone numbers and names of persons) below it."""
    kinds = [
        [*_SIGNATURES][match.lastindex - 1]
        for match in _SIGNATURE.finditer(text)
        if match.lastindex
    ]
    return {
        "headings": [words for _, words in _headings(text) if _IN_TABLES.fullmatch(words)],
        "signatures": kinds,
    }


def _headings(text: str) -> list[tuple[re.Match[str], str]]:
    """Return the headings of a table's text in their order, with often misspelt words corrected."""
    candidates: dict[int, tuple[re.Match[str], str]] = {}
    for match in chain.from_iterable(pattern.finditer(text) for pattern in _CANDIDATES):
        written = re.sub("[/&]", " AND ", match[1].upper())
        words = _table_heading(" ".join(written.split()))
        if words:
            candidates.setdefault(match.end(), (match, words))
    headings: list[tuple[re.Match[str], str]] = []
    in_findings = False
    for _, (match, words) in sorted(candidates.items()):
        if match[1].isupper() or not (in_findings and _BEFORE.match(words)):
            headings.append((match, words))
            in_findings = match[1].isupper() and meaning_of(words) == "findings"
    return headings


@lru_cache(maxsize=4096)
def _table_heading(words: str) -> str | None:
    """Return the heading that the words before a colon in a table's text are taken for; None if
    they are text."""
    words = _spelt(words)
    if _IN_TABLES.fullmatch(words):
        synonyms = [name for name, also in _TABLE_HEADINGS.items() if re.fullmatch(also, words)]
        return synonyms[0] if synonyms else words
    if _IMAGES_IN_TABLES.fullmatch(words):
        return words if meaning_of(words) or other_part(words) else f"CHEST {words}"
    return None


def _written_headings(text: str) -> list[tuple[re.Match[str], str]]:
    return [(match, " ".join((match[1] or match[2]).split())) for match in _HEADING.finditer(text)]


def _parts(text: str) -> list[_Part]:
    headings = _written_headings(text)
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
            last = _Part(meaning, "", words)
            # a heading that names the images may be the title of the report; it has no meaning
            # within findings
            main_in_capitals = words.isupper() and _is_main(words)
    return [*parts, last._replace(text=text[begin:])]


def _sections(parts: list[_Part], joined: bool = False) -> Sections:
    """Return the sections; without findings and impression, the last paragraphs of the report are
    the impression."""
    texts: dict[str, list[str]] = {}
    for part in parts:
        text = part.text
        if part.name in _CONTEXT:
            text = _BLANK_LINE.split(text.strip(), maxsplit=1)[0]
        words = _lines(text) if joined else _words(text)
        if part.name != "other" and words:
            texts.setdefault(part.name, []).append(words)
    *others, last = parts
    first_paragraph, *rest = _BLANK_LINE.split(last.text, maxsplit=1)
    conclusion = _words(rest[0]) if rest else None
    if texts.keys().isdisjoint(_MAIN) and conclusion:
        above = _sections([*others, last._replace(text=first_paragraph)], joined)
        return above._replace(impression=conclusion)
    if joined:
        return Sections(**{name: "\n".join(dict.fromkeys(all)) for name, all in texts.items()})
    return Sections(**{name: all[-1] for name, all in texts.items()})


@lru_cache(maxsize=4096)
def meaning_of(heading: str, section: SectionName = "other") -> SectionName | None:
    """Return the section that a heading begins, ``other`` for an unused section; None if it begins
    no section.

    Args:
        heading: without its colon, with single spaces.
        section: the section in which it occurs; a heading that names the images does not end
            findings or an impression.
    """
    spelt = _spelt(heading.upper())
    if not heading.isupper() and not _IN_SMALL_LETTERS.fullmatch(spelt):
        return None
    for name, words in _MEANINGS:
        if words.search(spelt):
            return name
    return "findings" if section not in _MAIN and _IMAGES.search(spelt) else None


@lru_cache(maxsize=4096)
def _spelt(heading: str) -> str:
    """Correct the often misspelt words of a heading."""
    words = heading.split()
    for place, word in enumerate(words):
        for correct in _TEXT["often misspelt"]:
            if len(word) > 5 and _edit_distance_is_one(word, correct):
                words[place] = correct
                break
    return " ".join(words)


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


def _lines(text: str) -> str | None:
    return "\n".join(" ".join(line.split()) for line in text.strip().split("\n")) or None
