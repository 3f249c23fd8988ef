"""The sections of a whole report in a table, by listed headings (``whole_reports.yaml``).

A heading is one of the listed words followed by a colon: in any letters at the beginning of a line
or after the end of a sentence, and in capitals anywhere. Its text goes to the next one. Other words
in capitals before a colon, at the beginning of a line or after a sentence, are no heading, and
their text stays in the section above.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import polars as pl

from pacer.core.io import yaml_beside
from pacer.corpus.readers.mimic_sections import Sections

_TEXT = yaml_beside(__file__, "whole_reports.yaml")


def _words(*sections: str) -> str:
    """Return a pattern, also for polars, of the listed headings of sections."""
    joined = "|".join(words for section in sections for words in _TEXT["headings"][section])
    joined = joined.replace("(S)", r"(?:S|\(S\))?").replace(" ", " +")
    return f"(?:{joined.replace(' +AND +', '(?: +AND +| ?[/&] ?)')})"


_MEANINGS = {name: re.compile(_words(name)) for name in _TEXT["headings"]}
_LISTED = _words(*_TEXT["headings"])
_CAPITAL = "[A-Z0-9'/&()#,-]+"
_HEADING = re.compile(
    rf"(?:^|(?<=[.!?]))[ \t]*(?:(?i:({_LISTED}))|([A-Z]{_CAPITAL}(?: +{_CAPITAL}){{0,4}}))[ \t]*:"
    rf"(?!(?<=\d:)\d)|(?<![\w/-])(?<!CLINICAL )({_LISTED})[ \t]*:",
    re.M,
)
_MAIN = _words("findings", "impression")
#: A listed heading in another form: without its colon, or in small letters within a line.
_OTHER_FORM = re.compile(
    rf"^[^\w\n]{{0,20}}(?=[A-Z])(?i:{_LISTED})(?:[^\w:\n]*$|[ \t]*(?:[;\]*=]|[–—]|-[ \t]))"
    rf"|\b(?=[A-Z][a-z])(?i:{_MAIN})[ \t]*:|\b(?:ADDENDUM|Addendum)\b",
    re.M,
)
_LEAVES_FINDINGS = ("findings", "unused")
_CONTEXT = ("indication", "history")
_BARE = "a heading without a colon or within a line"
_MIXED = "an indication or history that may hold the findings, not used"
_SENTENCE_END = re.compile(r"\w{3}[.!?](?=\s|$)")
_SECOND_SENTENCE = re.compile(r"\w{3}[.!?]\s+\S|\n\s*\n|\n[A-Z]")

_TITLES: dict[str, str] = _TEXT["titles"]
_CHEST = rf"(?i)\b(?:{_TITLES['chest']})\b"
_RADIOGRAPH = rf"(?i)\b(?:{_TITLES['radiograph']})\b"
_OTHER_MODALITY = rf"(?i)\b(?:{_TITLES['other modality']})\b"
_OTHER_PART = rf"(?i)\b(?:{_TITLES['other part']})\b"
_EXAM = "(?:EXAM(?:INATION)?|STUDY|PROCEDURE)S?"
#: A title: what stands after EXAM and the like, and a first line that is in capitals before a
#: listed heading, or has only words of titles.
_STATED = (
    rf"(?m)(?:(?:^|[.!?])[ \t]*(?i:{_EXAM})|[a-z0-9_,;)][ \t]+{_EXAM})[ \t]*:[ \t]*"
    r"([^\n.:]{1,100})"
)
_FIRST_LINES = (
    rf"\A\s*([^a-z\n.:]{{1,100}})[.:]?\s*\n\s*(?i:{_LISTED})[ \t]*:",
    rf"(?i)\A\s*((?:(?:{'|'.join(_TITLES.values())})(?:\b[ \t,/&().-]*|[ \t,/&().-]+))+)(?:\n|\z)",
)

#: For the audit: a listed heading in capitals, within the text of a section.
HEADINGS_IN_SECTION = rf"\b{_LISTED}[ \t]*:"
#: For the audit: text that may name a person, below a report.
SIGNATURES = f"(?i){'|'.join(_TEXT['signatures'])}"


def names_other_examination(text: pl.Expr) -> pl.Expr:
    """Whether a title in the text names an examination other than a radiograph of the chest (XR
    KNEE, CT CHEST, MAMMOGRAM). What stands below COMPARISON is no title."""
    titles = pl.concat_list(
        text.str.extract_all(_STATED).list.eval(pl.element().str.extract(_STATED)),
        *(text.str.extract(pattern) for pattern in _FIRST_LINES),
    )
    title = pl.element()
    is_chest = title.str.contains(_CHEST)
    is_other = title.str.contains(_OTHER_MODALITY) & ~(is_chest & title.str.contains(_RADIOGRAPH))
    is_elsewhere = title.str.contains(_OTHER_PART) & ~is_chest
    return titles.list.eval(is_other | is_elsewhere).list.any().fill_null(False)


def is_chest_radiograph(exam: str) -> bool:
    """Whether the name of an examination is that of a radiograph of the chest; False if it says
    neither."""
    name = exam.upper().replace("_", " ")
    has_radiograph = re.search(_RADIOGRAPH, name) or not re.search(_OTHER_MODALITY, name)
    return bool(re.search(_CHEST, name) and has_radiograph)


class WholeReport(NamedTuple):
    """The sections of a report, with single blanks and the line ends of the report; an indication
    or history is one line."""

    sections: Sections
    #: Listed headings whose text is not used.
    unused: tuple[str, ...]
    #: Words in capitals before a colon that are not listed.
    unknown: tuple[str, ...]
    #: What a person should look at.
    doubts: tuple[str, ...]
    #: Likewise, of listed headings in another form, which are read as text.
    bare: tuple[str, ...]


class _Part(NamedTuple):
    """The text from one listed heading to the next, without the heading."""

    name: str
    heading: str
    text: str


@lru_cache(maxsize=16)  # the rows of an examination have one text
def split_report(text: str) -> WholeReport:
    """Split a report at its listed headings. Sections of one name are joined without repeats. A
    report without a listed heading is all findings. Without findings, an indication or history of
    more than one sentence is not used, because the findings may stand in it."""
    (above, *parts), unknown = _split(text)
    if not parts:
        bare = (_BARE,) if _OTHER_FORM.search(above.text) else ()
        doubts = ("no heading, so all is findings",) if above.text and not bare else ()
        return WholeReport(Sections(findings=above.text or None), (), unknown, doubts, bare)
    texts: dict[str, list[str]] = {}
    for part in parts:
        if part.text:
            texts.setdefault(part.name, []).append(part.text)
    doubts = tuple(_doubts([above, *parts], texts))
    if _MIXED in doubts:
        texts = {name: all for name, all in texts.items() if name not in _CONTEXT}
    sections = {name: "\n".join(dict.fromkeys(texts[name])) for name in texts if name != "unused"}
    for name in sections.keys() & _CONTEXT:
        sections[name] = " ".join(sections[name].split())
    unused = tuple(part.heading for part in parts if part.name == "unused" and part.text)
    used = (text for name in Sections._fields for text in texts.get(name, ()))
    bare = (_BARE,) if any(map(_OTHER_FORM.search, used)) else ()
    return WholeReport(Sections(**sections), unused, unknown, doubts, bare)


def _doubts(parts: list[_Part], texts: Mapping[str, list[str]]) -> Iterator[str]:
    if _SENTENCE_END.search(parts[0].text):
        yield "text above the first heading, not used"
    context = [text for name in _CONTEXT for text in texts.get(name, ())]
    if "findings" in texts:
        if any(len(_SENTENCE_END.findall(text)) > 2 for text in context):
            yield "an indication or history of more than two sentences"
    else:
        either = "" if "impression" in texts else "and no impression "
        yield f"no findings {either}below a heading"
        if any(_SECOND_SENTENCE.search(text) or _OTHER_FORM.search(text) for text in context):
            yield _MIXED
    if any(part.heading.startswith("ADDENDUM") and part.text for part in parts):
        yield "an addendum, not used"
    if any(len(texts.get(name, ())) > 1 for name in ("findings", "impression")):
        yield "a section that occurs twice, joined"
    below = [two.text for one, two in pairwise(parts) if (one.name, two.name) == _LEAVES_FINDINGS]
    if any(map(_SECOND_SENTENCE.search, below)):
        yield "findings that may go on below a heading that is not used"


def _split(text: str) -> tuple[list[_Part], tuple[str, ...]]:
    """Return the text above the first listed heading, the parts below a listed heading, and the
    headings that are not listed."""
    parts: list[_Part] = []
    unknown: list[str] = []
    heading = ""
    begin = 0
    for match in _HEADING.finditer(text):
        words = " ".join((match[1] or match[2] or match[3]).upper().split())
        if match[2]:
            unknown.append(words)
        else:
            parts.append(_Part(_meaning(heading), heading, _lines(text[begin : match.start()])))
            heading = words
            begin = match.end()
    parts.append(_Part(_meaning(heading), heading, _lines(text[begin:])))
    return parts, tuple(unknown)


def _meaning(heading: str) -> str:
    return next((name for name, words in _MEANINGS.items() if words.fullmatch(heading)), "unused")


def _lines(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.strip().split("\n"))
