"""How a report is laid out: markup, sentences and list items, sections, and headings over lists.

Each character keeps its place, so that a place in a sentence is a place in the report.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise

from pacer.text.rules.scope import items_of
from pacer.text.rules.tables import (
    MARKS,
    NEGATIVE,
    OWN,
    POSITIVE,
    UNCERTAIN,
    UNKNOWN,
    longest,
    words_of,
)

#: Characters with a plain form of their own.
_LETTERS = dict.fromkeys('“”„"`', " ") | dict.fromkeys("’‘ʼ´", "'") | {"…": ".", "⌀": "ø", "∅": "ø"}
_LETTERS |= dict.fromkeys("✗✘✖❌❎🚫✕", "✗") | dict.fromkeys("✓✔✅", "✓") | dict.fromkeys("☑☒", "☒")
_LETTERS |= dict.fromkeys("•‣⁃∙·●▪■◦", "•") | {"☐": "☐", "□": "☐", "\u2028": "\n", "\u2029": "\n"}


@cache
def _letter(letter: str) -> str:
    """Return the plain form of a character, which is one character too."""
    if letter in _LETTERS or letter.isascii():
        return _LETTERS.get(letter, letter)
    plain = unicodedata.normalize("NFKD", letter)[0]  # also "İ", which is two in lower case
    kind = unicodedata.category(plain)
    return "-" if kind == "Pd" or plain == "−" else " " if kind[0] in "ZC" else plain


_THOUGHT = r"\A.*</think(?:ing)?>|<think(?:ing)?>.*"


#: Markup: a sign without which a text has none, the pattern, and what stands for it.
_MARKUP = [
    (sign, re.compile(pattern, re.IGNORECASE | re.DOTALL), new)
    for sign, pattern, new in (
        ("think", _THOUGHT, ""),
        ("&", r"&(?:#\w{1,6}|[a-z]{2,8});", None),
        ("<", r"<(?:br|/?(?:p|li|div|tr|table|ul|ol|h\d|findings|impression))\b[^<>]*>", "\n\n"),
        ("<", r"</?\w[^<>]{0,60}>|<\|[^<>]*\|>", ""),
        ("\\", r"\\+[nrt]", "\n\n"),
        ("_x000", r"_x000[ad]_", "\n\n"),
        ("[", r"\[ ?\]", "☐"),
        ("[", r"\[[x✓]\]", "☒"),
        ("+", r"[([] ?\+ ?[)\]]", "✓"),
        ("-", r"[([] ?[-–] ?[)\]]", "✗"),
    )
]  # fmt: skip


def plain(report: str) -> str:
    """Return a report without markup; every character stands where it stood."""
    text = report.replace('"', " ") if report.isascii() else "".join(map(_letter, report))
    for sign, pattern, new in _MARKUP:
        if sign in text:
            text = pattern.sub(
                lambda markup, new=new: (
                    html.unescape(markup[0])[:1] if new is None else new
                ).ljust(len(markup[0])),
                text,
            )
    return text


#: A text narrower than this has one item a line; a wider one may be wrapped.
_WIDTH = 40
#: The break of a line that ends a sentence.
_BREAK = "\f"


def _with_breaks(text: str) -> str:
    """Mark the line breaks that end a sentence: those where the line had room for the next
    word."""
    rows = text.split("\n")
    width = max(map(len, rows))
    marked = rows[0]
    for row, after in pairwise(rows):
        word = after.split(maxsplit=1)[0] if row.strip() and after.strip() else ""
        room = width < _WIDTH or len(row.rstrip()) + 1 + len(word) < width - 3
        ends = word and room and (not word[0].islower() or _LABEL.match(after))
        marked += (_BREAK if ends else "\n") + after
    return marked


#: What stands before the words of a sentence: blanks, bullets, numbers, marks of headings.
_LEAD = r"(?:[\s*>#•'+-]|\(?\d{1,2}[.)](?=\s))*"
_START = re.compile(_LEAD)
#: The end of a sentence or item, which is one of the first characters beside the right ones, and
#: what stands before the next.
_END = re.compile(
    r"[.!?;\n\f{}\[\]•\d](?:(?<=[.!])(?<!\b[Vv][Ss].)(?<!\bD[Rr].)(?<!\b[LR]t.)[.!]*(?=\s|$|[A-Z])"
    r"|(?<=\S\?)\?*(?=\s|$|[A-Z])|(?<=[;\f{}\[\]•])|(?<=\n)\s*\n"
    r"|(?<=\n)\s*(?=\(?\d{1,2}[.)]\s|[-*#|✓✗☐☒]|[A-Z][A-Za-z /&()]{1,40}:)"
    rf"|(?<![^\s\d].)(?<=\d)\d?[.)](?=\s+[A-Z])){_LEAD}"
)
_ITEM = re.compile(r"[\n\f][ \t]*(?:[-*•+#|✓✗☐☒]|\(?\d{1,2}[.)])")
_BLANK, _LABEL = re.compile(r"[\n\f]\s*[\n\f]"), re.compile(r"\s*[\w /-]{2,40}:")
#: What may stand between a heading over a list and the list, instead of a colon.
_BEHIND_HEADING = re.compile(r"\s[-–—]+\s|\binclud(?:e|es|ing)\b")
#: A text without any of these has no headings.
_SIGNS_OF_HEADINGS = (":", "#", "\n", "\f", " -", " –", " —", "includ")
#: The longest heading, in characters.
_HEADING = 60

#: A sentence or list item in lower case; its place; the state of findings about which it says
#: nothing; the place of the heading that says so, or -1; whether it is a question.
Part = tuple[str, int, str, int, bool]


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each sentence or item."""
    spans, lead = [], _START.match(text)
    start = lead.end() if lead else 0
    for end in _END.finditer(text):
        if text[start : end.start()].strip():
            spans.append((start, end.start()))
        start = end.end()
    if text[start:].strip():
        spans.append((start, len(text)))
    return spans


@lru_cache(maxsize=1 << 12)
def _heading(label: str, is_alone: bool) -> tuple[str, str] | None:
    """Return the kind and detail of a heading; None if a label is none. The words of a heading over
    a list are values and fillers ("Pertinent negatives"). ``is_alone``: nothing follows it in its
    line, so any label is one, and a cue in it decides ("There is no evidence of the following")."""
    words = words_of(label, OWN.forms)
    end, section = longest(OWN.sections, words, 0)
    if section and end == len(words):
        return "section", section
    states, place = [], 0
    while place < len(words):
        end, state = longest(OWN.values, words, place)
        if state:
            states.append(state)
        else:
            end, filler = longest(OWN.fillers, words, place)
            if not filler and words[place] not in MARKS:
                break
        place = max(end, place + 1)
    if place >= len(words):
        known = [state for state in states if state != UNKNOWN]
        return ("list", known[0]) if known else ("label", POSITIVE)
    items = items_of(words, OWN.phrases)
    if not is_alone or any(item.mentions for item in items):
        return None
    kinds = {item.kind for item in items}
    for cue, state in (("no", NEGATIVE), ("maybe", UNCERTAIN)):
        if cue in kinds:
            return "list", state
    return "label", POSITIVE


def parts(report: str) -> Iterator[Part]:
    """Yield the sentences and list items of a report, without the sections that state no findings.
    Such a section ends at the next heading, at the end of its first paragraph, or else, in a report
    without further headings, after a sentence."""
    text = plain(report)
    text = _with_breaks(text) if "\n" in text else text
    spans, lower = _spans(text), text.lower()
    if not any(sign in text for sign in _SIGNS_OF_HEADINGS):
        for start, end in spans:
            asks = text[end : end + 1] == "?"
            yield lower[start : end + asks], start, POSITIVE, -1, asks
        return
    starts = [start for start, _ in spans]
    gaps = [text[end:start] for end, start in zip([0, *(end for _, end in spans)], starts)]
    headings = [
        _heading_of(lower, *span, *both) for span, both in zip(spans, zip(gaps, [*gaps[1:], ""]))
    ]
    sections = [place for place, one in enumerate(headings) if one and one[0] == "section"]
    last = max(sections, default=-1)
    skips, state, above, inside, is_inline = False, POSITIVE, -1, False, False
    for place, ((start, end), gap, heading) in enumerate(zip(spans, gaps, headings)):
        closing = text[end : end + 1]
        if heading:
            kind, detail, start = heading
            inside, is_inline, above = kind == "label", start < end, place
            state = detail if kind == "list" else POSITIVE
            if kind != "label":
                skips = detail == "skip"
        elif inside and _BLANK.search(gap):
            skips = False
            if not _ITEM.search(gap):
                state = POSITIVE
        if not text[start:end].strip():
            continue
        inside = True
        if skips:
            skips = place < last or closing not in (".", "!", "?")
            continue
        yield lower[start : end + (closing == "?")], start, state, above, closing == "?"
        if is_inline and closing not in (";", "[", "]"):
            state, is_inline = POSITIVE, False


def _heading_of(
    text: str, start: int, end: int, gap: str, gap_after: str
) -> tuple[str, str, int] | None:
    """Return the kind and detail of the heading that a sentence begins with, and where the text
    behind it begins; None without a heading. The kind ``label`` is one that states nothing."""
    colon = text.find(":", start, min(end, start + _HEADING))
    if colon >= 0:
        is_alone = not text[colon + 1 : end].strip(" *\n")
        found = _heading(text[start:colon], is_alone)
        return found and (*found, end if is_alone else colon + 1)
    behind = _BEHIND_HEADING.search(text, start, min(end, start + _HEADING))
    if behind:
        found = _heading(text[start : behind.start()], False)
        return (*found, behind.end()) if found and found[0] == "list" else None
    if end - start < _HEADING and ("#" in gap or _ITEM.search(gap_after)):
        found = _heading(text[start:end], False)
        return (*found, end) if found else ("label", POSITIVE, start) if "#" in gap else None
    return None
