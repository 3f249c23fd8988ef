"""Convert foreign characters, markup and structured text to plain text, and map each character to
its place in the report.

Models and web pages write bullets, tags, entities, JSON and tables; none of them may hide a cue or
join two statements.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, partial

from pacer.commitments.rules.table import GROUPS, expand, lines

#: The place in the report of each character of a text.
Places = Sequence[int]

#: An ASCII report without any of these marks needs no conversion.
_MARKS = (
    *'<>&\\|~#*{"`\t',
    "_x000",
    "CTR",
    "horacic ratio",
    "[ ]",
    "[x]",
    "[X]",
    "[/INST]",
    "ser:",
    "SER:",
    "uman:",
    "UMAN:",
)
#: Names that the tables use for characters that they cannot show.
_SIGNS = {"line": "\n\n", "blank": " ", "nothing": ""}
#: Characters with a special plain form.
_SPELLINGS = {
    letter: _SIGNS.get(row["plain"], row["plain"]).replace("\\xad", "\xad")
    for row in lines("letters.tsv")
    for letter in re.sub(
        r"\\(?:u\w{4}|x\w\w)", lambda code: chr(int(code[0][2:], 16)), row["letters"]
    )
}


@cache
def _plain_letter(letter: str) -> str:
    """Return a character's plain form: NFKC, one form of dashes, bullets, quotes and spaces."""
    if letter in _SPELLINGS:
        return _SPELLINGS[letter]
    if letter.isascii():
        return letter
    kind = unicodedata.category(letter)
    if kind == "Cf":  # joiners and marks of direction
        return ""
    if kind == "Pd" or letter == "−":
        return " - "
    plain = unicodedata.normalize("NFKC", letter)
    if plain != letter:
        return "".join(map(_plain_letter, plain))
    return "•" if kind in ("So", "Sm") else " " if kind[0] in "PSZC" else letter


#: The content of a cell of a table.
_CELL = re.compile(r"[^|\s](?:[^|\n]*[^|\s])?")
#: Markup in the order of its replacement: a sign without which a text has none, the pattern, and
#: the new text.
_MARKUP = [
    (
        row["sign"],
        re.compile(expand(row["pattern"]), re.IGNORECASE | re.MULTILINE),
        _SIGNS.get(row["new"], row["new"]),
    )
    for row in lines("markup.tsv")
]


def plain(report: str) -> tuple[str, Places]:
    """Return a report as plain text, and the place in the report of each of its characters."""
    if report.isascii() and not has_any(report, _MARKS):
        return report, range(len(report))
    letters = list(map(_plain_letter, report))
    text = "".join(letters)
    places: Places = [place for place, plain in enumerate(letters) for _ in plain]
    for sign, pattern, new in _MARKUP:
        if sign in text and new == "columns":
            text, places = _by_column(pattern, text, places)
        elif sign in text:
            text, places = substitute(pattern, partial(_replaced, new), text, places)
    return text, places


def _replaced(new: str, match: re.Match[str]) -> str:
    if new == "entity":
        return "".join(map(_plain_letter, html.unescape(match[0])))
    return new.ljust(len(match[0])) if new == "!" else new


def _by_column(pattern: re.Pattern[str], text: str, places: Places) -> tuple[str, Places]:
    """Write a table with a column for each finding as lines of a name and its value."""
    letters, order, done = list[str](), list[int](), 0

    def put(start: int, end: int, after: str = "") -> None:
        letters.append(text[start:end] + after)
        order.extend([*range(start, end), *[end - 1] * len(after)])

    for table in pattern.finditer(text):
        names, cells = (
            list(_CELL.finditer(text, *table.span(part))) for part in ("names", "cells")
        )
        if len(names) == len(cells):
            put(done, table.start())
            for name, cell in zip(names, cells, strict=True):
                put(*name.span(), ": ")
                put(*cell.span(), "\n\n")
            done = table.end()
    put(done, len(text))
    return "".join(letters), [places[place] for place in order]


def has_any(text: str, pieces: Sequence[str]) -> bool:
    """Whether a text contains one of some pieces; faster than a regular expression."""
    for piece in pieces:  # noqa: SIM110 (a generator takes three times as long)
        if piece in text:
            return True
    return False


def substitute(
    pattern: re.Pattern[str], new: Callable[[re.Match[str]], str], text: str, places: Places
) -> tuple[str, Places]:
    """Replace the matches of a pattern. New letters have the places of the old ones in order, from
    the start of the group that has matched; without a group, more letters than the old ones share
    their places evenly."""
    if not pattern.search(text):
        return text, places
    pieces, origin, done = list[str](), list[int](), 0
    for match in pattern.finditer(text):
        start, end = match.span()
        letters = new(match)
        begin = match.start(match.lastgroup or 0)
        first, step = begin - len(letters) + len(letters.lstrip(" =")), 1.0
        if match.lastgroup is None and len(letters) > end - start:
            step = (end - start) / len(letters)
        pieces += text[done:start], letters
        origin += places[done:start]
        origin += (
            places[min(max(begin, int(first + step * number)), end - 1)]
            for number in range(len(letters))
        )
        done = end
    return "".join([*pieces, text[done:]]), [*origin, *places[done:]]


_TURNS, _TASK, _INDICATION, _ASIDE, _REPORT = (
    re.compile(GROUPS[name], re.IGNORECASE if name != "aside_section" else 0)
    for name in ("turns", "task", "indication", "aside_section", "report_begins")
)
#: Tags and marks, which do not count as words of a prompt.
_MARK = re.compile(r"<[^>]*>|\[/?\w+\]")
#: Number of words at the beginning in which a task is searched for.
_WORDS = 40


def without_prompt(text: str) -> str:
    """Return the report in a generated text; unchanged if the text repeats no prompt, empty if it
    holds nothing else.

    Cut off are turns (all before ``[/INST]`` and similar marks, and thoughts); an indication up to
    the next heading, or to the end of its sentence; and a task within the first 40 words, up to a
    mark such as ``Findings:`` or ``Response:``. A task without such a mark leaves nothing, because
    nobody can tell where it ends.
    """
    answer = _TURNS.sub(
        lambda turns: "" if re.search(r"\w", _MARK.sub("", turns[0])) else turns[0], text
    )
    if _TASK.search(" ".join(answer.split(maxsplit=_WORDS)[:_WORDS])):
        begins = _REPORT.search(answer)
        return answer[begins.end() :].strip() if begins else ""
    if _INDICATION.match(answer):
        answer = _ASIDE.sub("", answer).lstrip(" .;\n")
    return answer if answer == text else answer.strip()
