"""How a report is laid out: markup, sentences and list items, sections, and headings over lists.

Each character keeps its place, so that a place in a sentence is a place in the report.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from pacer.text.rules.items import items_of
from pacer.text.rules.lexicon import NEGATIVE, OWN, POSITIVE, UNCERTAIN
from pacer.text.rules.tables import words_of

#: Characters with a plain form of their own.
_LETTERS = dict.fromkeys("“”„\"`", " ") | dict.fromkeys("’‘ʼ´", "'") | {"…": ".", "⌀": "ø", "∅": "ø"}
_LETTERS |= dict.fromkeys("✗✘✖❌❎🚫✕", "✗") | dict.fromkeys("✓✔✅", "✓") | dict.fromkeys("☑☒", "☒")
_LETTERS |= dict.fromkeys("•‣⁃∙·●▪■◦", "•") | {"☐": "☐", "□": "☐", "\u2028": "\n", "\u2029": "\n"}


@cache
def _letter(letter: str) -> str:
    """Return the plain form of a character, which is one character too."""
    if letter in _LETTERS or letter.isascii():
        return _LETTERS.get(letter, letter)
    plain = unicodedata.normalize("NFKD", letter)[0]
    kind = unicodedata.category(plain)
    return "-" if kind == "Pd" or plain == "−" else " " if kind[0] in "ZC" else plain


#: Markup: a sign without which a text has none, the pattern, and what stands for it.
_MARKUP = [
    (sign, re.compile(pattern, re.IGNORECASE | re.DOTALL), new)
    for sign, pattern, new in (
        ("think", r"\A.*</think(?:ing)?>|<think(?:ing)?>.*", ""),
        ("&", r"&(?:#\w{1,6}|[a-z]{2,8});", None),
        ("<", r"<(?:br|/?(?:p|li|div|tr|table|ul|ol|h\d|findings|impression))\b[^<>]*>", "\n\n"),
        ("<", r"</?\w[^<>]{0,60}>|<\|[^<>]*\|>", ""),
        ("\\", r"\\+[nrt]", "\n\n"),
        ("_x000", r"_x000[ad]_", "\n\n"),
        ("[", r"\[ ?\]", "☐"),
        ("[", r"\[[x✓]\]", "☒"),
        ("(", r"\( ?\+ ?\)", "✓"),
        ("(", r"\( ?[-–] ?\)", "✗"),
    )
]  # fmt: skip


def plain(report: str) -> str:
    """Return a report without markup; every character stands where it stood."""
    text = report.replace('"', " ") if report.isascii() else "".join(map(_letter, report))
    for sign, pattern, new in _MARKUP:
        if sign in text:
            text = pattern.sub(
                lambda markup, new=new: (html.unescape(markup[0])[:1] if new is None else new).ljust(
                    len(markup[0])
                ),
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
    for row, after in zip(rows, rows[1:]):
        word = after.split(maxsplit=1)[0] if row.strip() and after.strip() else ""
        room = width < _WIDTH or len(row.rstrip()) + 1 + len(word) < width - 3
        ends = word and room and (not word[0].islower() or _LABEL.match(after))
        marked += (_BREAK if ends else "\n") + after
    return marked


#: The end of a sentence or item: one of these characters, and what must stand around it.
_END = re.compile(
    r"[.!?;\n\f{}\[\]•\d](?:(?<=[.!])(?<!\bvs.)(?<!\bDr.)[.!]*(?=\s|$|[A-Z])"
    r"|(?<=\S\?)\?*(?=\s|$|[A-Z])|(?<=[;\f{}\[\]•])|(?<=\n)\s*\n"
    r"|(?<=\n)\s*(?=\(?\d{1,2}[.)]\s|[-*#|✓✗☐☒]|[A-Z][A-Za-z /&()]{1,40}:)"
    r"|(?<![^\s\d].)(?<=\d)\d?[.)](?=\s+[A-Z]))"
)
#: What stands before the words of a sentence: blanks, bullets, numbers, marks of headings.
_LEAD = re.compile(r"(?:[\s*>#•'+-]|\(?\d{1,2}[.)](?=\s))*")
_ITEM = re.compile(r"[\n\f]\s*(?:[-*•+#|✓✗☐☒]|\(?\d{1,2}[.)])")
_BLANK, _LABEL = re.compile(r"[\n\f]\s*[\n\f]"), re.compile(r"\s*[\w /-]{2,40}:")
#: The longest heading, in characters.
_HEADING = 60


class Part(NamedTuple):
    """A sentence or list item."""

    #: In lower case; its place in the report.
    text: str
    start: int
    #: The state of findings about which it says nothing, and the place of the heading that says so.
    state: str
    heading: int
    is_question: bool


class _Piece(NamedTuple):
    """The words between two ends of sentences, and the text between them and those before."""

    start: int
    end: int
    gap: str
    closing: str


def _pieces(text: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    begin, before = 0, 0
    for end in (*_END.finditer(text), None):
        stop = end.start() if end else len(text)
        lead = _LEAD.match(text, begin, stop)
        start = lead.end() if lead else begin
        if start < stop and not text[start:stop].isspace():
            pieces.append(_Piece(start, stop, text[before:start], end[0] if end else ""))
            before = stop
        begin = end.end() if end else stop
    return pieces


@lru_cache(maxsize=1 << 12)
def _heading(label: str, is_alone: bool) -> tuple[str, str] | None:
    """Return the kind and detail of a heading; None if a label is none. ``is_alone``: nothing
    follows it in its line, so a label such as "There is no evidence of the following" is one."""
    words = words_of(label, OWN.forms)
    end, row = OWN.headings.longest(words, 0)
    if row is not None and end == len(words):
        return row.kind, row.detail
    if not is_alone:
        return None
    items = items_of(words, OWN.phrases)
    if any(item.mentions for item in items):
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
    pieces = _pieces(text)
    headings = [_heading_of(text, *both) for both in zip(pieces, [*pieces[1:], None])]
    sections = [place for place, one in enumerate(headings) if one and one[0] == "section"]
    last = max(sections, default=-1)
    skips, state, above, inside, is_inline = False, POSITIVE, -1, False, False
    for place, (piece, heading) in enumerate(zip(pieces, headings)):
        start, is_blank = piece.start, _BLANK.search(piece.gap) is not None
        if heading:
            kind, detail, start = heading
            inside, is_inline, above = kind == "label", start < piece.end, place
            state = detail if kind == "list" else POSITIVE
            if kind != "label":
                skips = detail == "skip"
        elif is_blank and inside:
            skips = False
            if not _ITEM.search(piece.gap):
                state = POSITIVE
        sentence = text[start : piece.end]
        if not sentence.strip():
            continue
        inside = True
        if skips:
            skips = place < last or piece.closing[:1] not in (".", "!", "?")
            continue
        lower = sentence.lower()
        if len(lower) != len(sentence):
            lower = "".join(one.lower() if len(one.lower()) == 1 else one for one in sentence)
        yield Part(lower, start, state, above, "?" in piece.closing)
        if is_inline and piece.closing[:1] not in ";[]":
            state, is_inline = POSITIVE, False


_DASH = re.compile(r"\s[-–—]+\s")


def _heading_of(text: str, piece: _Piece, after: _Piece | None) -> tuple[str, str, int] | None:
    """Return the kind and detail of the heading that a piece begins with, and where the text behind
    it begins; None without a heading. The kind ``label`` is one that states nothing."""
    begin, end = piece.start, piece.end
    colon = text.find(":", begin, min(end, begin + _HEADING))
    if colon >= 0:
        is_alone = not text[colon + 1 : end].strip(" *\n")
        found = _heading(text[begin:colon].lower(), is_alone)
        return found and (*found, end if is_alone else colon + 1)
    dash = _DASH.search(text, begin, min(end, begin + _HEADING))
    if dash:
        found = _heading(text[begin : dash.start()].lower(), False)
        return (*found, dash.end()) if found and found[0] == "list" else None
    is_marked = "#" in piece.gap
    if end - begin < _HEADING and (is_marked or (after and _opens_item(after))):
        found = _heading(text[begin:end].lower(), False)
        return (*found, end) if found else ("label", POSITIVE, begin) if is_marked else None
    return None


def _opens_item(piece: _Piece) -> bool:
    return _ITEM.search(piece.gap) is not None
