"""Foreign characters, markup and structured text as plain text, in which every character knows its place in the report.

Models and web pages write bullets, tags, entities, JSON and tables; none of them may hide a cue or join two statements.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence

from pacer.commitments.rules.echo import ECHO
from pacer.commitments.rules.table import GROUPS

#: The place in the report of each character of a text; None if nobody asks.
Places = list[int] | None

#: A report in ASCII without these is plain already.
_MARKS = (*'<>&\\|~#*{"`\t', "_x000", "[/INST]", "user:", "User:", "USER:", "human:", "Human:", "HUMAN:")
#: Characters with a plain form of their own; all others by their Unicode category.
_SPELLINGS = {
    "\xad": "\xad",
    **dict.fromkeys("\u2028\u2029\x85", "\n"),
    **dict.fromkeys("\u200b\ufeff▁Ġ", " "),
    **dict.fromkeys("\ufe0e\ufe0f", ""),
    **dict.fromkeys("\u2010\u2011", "-"),
    **dict.fromkeys("‘’ʼ′", "'"),
    **dict.fromkeys("∅⌀", "ø"),
    **dict.fromkeys("°±×÷©®¬", " "),
    **dict.fromkeys("•‣⁃∙·※", "•"),
    **dict.fromkeys("✓✔✅☑", " yes "),
    **dict.fromkeys("✗✘✖❌", " no "),
}


class _Letters(dict[int, str]):
    """The plain form of every character: NFKC, one form of dashes, bullets, quotes and blanks."""

    def __missing__(self, code: int) -> str:
        self[code] = _plain_letter(chr(code))
        return self[code]


def _plain_letter(letter: str) -> str:
    if letter in _SPELLINGS:
        return _SPELLINGS[letter]
    kind = unicodedata.category(letter)
    if letter.isascii():
        return letter
    if kind == "Cf":  # joiners and marks of direction
        return ""
    if kind == "Pd" or letter == "−":
        return " - "
    plain = unicodedata.normalize("NFKC", letter)
    if plain != letter:
        return "".join(map(_plain_letter, plain))
    return "•" if kind in ("So", "Sm") else " " if kind[0] in "PSZC" else letter


_LETTERS = _Letters()

#: What follows a value in a cell or after a name.
VALUE_ENDS = r"(?=\s*(?:\.(?!\d)|[,;!?/|\n<(})\]•]|$|-\s|[a-z][a-z ]{2,30}(?::|\s-\s|\s\()))"
_VALUE, _KEY = rf"\b{GROUPS['value']}{VALUE_ENDS}", GROUPS["key"]


def _blank(match: re.Match[str]) -> str:
    return "!".ljust(len(match[0]))


#: Markup in the order of its replacement, each with the sign that a text needs to have it.
_MARKUP: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]], ...] = tuple(
    (sign, re.compile(pattern, re.IGNORECASE | re.DOTALL), new if callable(new) else lambda _, new=new: new)
    for sign, pattern, new in (
        ("", ECHO, _blank),
        ("&", r"&(?:#\d{1,6}|#x[0-9a-f]{1,5}|[a-z]{2,8});", lambda match: html.unescape(match[0]).translate(_LETTERS)),
        ("\\", r"\\[nrt]", "\n"),
        ("_x", r"_x000[ad]_", "\n"),
        # a cell, words within a line, anything else that is a tag
        ("<", r"<(?:td|th|dd)\b[^<>]*>", "|"),
        ("<", r"</?(?:[biua]|em|strong|mark|span|font|sub|sup|unk|pad|mask|td|th|dd)(?:\s[^<>]*)?/?>", " "),
        ("<", rf"</[a-z][\w:-]*\s*>|<(?:{GROUPS['tag']})(?:\s[^<>]*)?/?>|<\|[^<>|\n]{{1,40}}\|>", "\n\n"),
        # JSON: the value of a key such as "status" belongs to the name before; other keys begin a segment
        ('":', rf"[\"']?\s*(?:,|:\s*\{{)\s*[\"']{_KEY}[\"']\s*:(?=\s*[\"']?{_VALUE.replace(VALUE_ENDS, '')})", ":"),
        ('":', r",(?=\s*\{?\s*[\"'][^\"'\n]{1,60}[\"']\s*:)|[{}]", "\n\n"),
        ('"', r"[\"\[\]]", " "),
        # tables: the line under the head, an empty cell, and where rows stand in one line, their ends
        ("|", r"\|?(?:[ \t]*:?-{3,}:?[ \t]*\|?)+", "\n\n"),
        ("|", r"\|\s*\n\s*\|?|(?<!\n)\|[ \t]*\|(?=[^\n]*\Z)(?<!\n)", "\n\n"),
        ("**", r"\*{2,}", ""),
        (">", r"[-=]+>", "•"),
        ("•", rf"\s*•[\s•]*(?!\s*{_VALUE})", "\n\n"),
    )
)


def plain(report: str, places: Places) -> tuple[str, Places]:
    """Return a report as plain text, with the places of its characters if ``places`` has those of the report."""
    if report.isascii() and not has_any(report, _MARKS):
        return report, places
    if places is not None:
        places = [place for place, letter in zip(places, report, strict=True) for _ in letter.translate(_LETTERS)]
    text = report.translate(_LETTERS)
    for sign, pattern, new in _MARKUP:
        if sign in text:
            text, places = substitute(pattern, new, text, places)
    return text, places


def has_any(text: str, pieces: Sequence[str]) -> bool:
    """Whether a text contains one of some pieces; faster than a regular expression."""
    for piece in pieces:  # noqa: SIM110 (a generator takes three times as long)
        if piece in text:
            return True
    return False


def substitute(
    pattern: re.Pattern[str], new: Callable[[re.Match[str]], str], text: str, places: Places
) -> tuple[str, Places]:
    """Replace the matches of a pattern. New letters have the places of the old ones in order (from the start of the
    group that has matched, if any), the surplus the last one's."""
    if places is None:
        return pattern.sub(new, text), None
    pieces, origin, done = list[str](), list[int](), 0
    for match in pattern.finditer(text):
        start, end = match.span()
        letters = new(match)
        begin = match.start(match.lastgroup or 0)
        first = begin - len(letters) + len(letters.lstrip(" ="))
        pieces += text[done:start], letters
        origin += places[done:start]
        origin += (places[min(max(begin, first + step), end - 1)] for step in range(len(letters)))
        done = end
    return "".join([*pieces, text[done:]]), origin + places[done:]
