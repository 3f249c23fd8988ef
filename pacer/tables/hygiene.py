"""Checks of the texts, ids and paths in users' files, shared by all readers."""

import html
import os
import re
import unicodedata
from functools import lru_cache
from pathlib import Path, PureWindowsPath

from pacer.core.io import yaml_beside

#: Vertical tab, form feed and other line ends: Word and printers write them.
LINE_ENDS = "[\x0b\x0c\x85\u2028\u2029]"
#: Control characters other than tab and line ends.
CONTROL = r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]"
#: Control characters, and lone surrogates, which JSON can express but encodings, tokenizers and
#: tables refuse.
_NO_TEXT = re.compile(rf"{CONTROL}|[\ud800-\udfff]")


def fault_of(text: str) -> str | None:
    """Describe the first character that a text must not contain; None if there is none."""
    fault = _NO_TEXT.search(text)
    if fault is None:
        return None
    kind = "the unpaired surrogate" if "\ud800" <= fault[0] <= "\udfff" else "the control character"
    return f"character {fault.start() + 1:,} is {kind} U+{ord(fault[0]):04X}; use plain text"


_TABLE = yaml_beside(__file__, "hygiene.yaml")
#: Pattern of each kind of residue of another format in a text; also patterns for polars.
RESIDUE: dict[str, str] = _TABLE["residue"]
_ENTITY = re.compile(RESIDUE["entities"])
_ESCAPES = re.compile(r"(?:_x[0-9A-Fa-f]{4}_)+")
#: Soft hyphens, joiners, marks of direction and byte order marks.
_INVISIBLE = "\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
_NO_BREAK_SPACES = "\u00a0\u2007\u202f"
_NO_BREAK_HYPHEN = "\u2011"


def without_residue(text: str) -> str:
    """Return the text without entities, ``_x000D_``, and soft or non-breaking characters: as it was
    before another format escaped it. A carriage return becomes a line feed. Tags and a written-out
    ``\\n`` stay: they can be text."""
    text = _ESCAPES.sub(_decoded, text)
    while True:
        unescaped = _ENTITY.sub(lambda entity: html.unescape(entity[0]).replace("\r", "\n"), text)
        if unescaped == text:
            break
        text = unescaped  # again, since &amp;lt; was escaped twice
    text = re.sub(f"[{_INVISIBLE}]", "", text)
    return re.sub(f"[{_NO_BREAK_SPACES}]", " ", text).replace(_NO_BREAK_HYPHEN, "-")


def _decoded(escapes: re.Match[str]) -> str:
    units = bytes.fromhex("".join(re.findall(r"_x(.{4})_", escapes[0])))
    return units.decode("utf-16-be", "replace").replace("\r", "\n")


#: De-identification placeholders of a name, date or number (``[**Last Name 555**]``, ``<DATE>``);
#: also a pattern for polars.
PLACEHOLDER: str = _TABLE["placeholder"]
#: Words that programs and people write if there is no text, without surrounding punctuation.
ABSENT_WORDS: frozenset[str] = frozenset(_TABLE["absent words"])
_EMPTY_MARKERS: list[str] = [*map(re.escape, sorted(ABSENT_WORDS)), *_TABLE["no report"]]
_ABSENT = re.compile(
    rf"[\W_]*(?:(?:{PLACEHOLDER}|{_TABLE['template']}"
    rf"|(?i:{'|'.join(_EMPTY_MARKERS)})\b)[\W_]*)*|\s*\\N\s*"
)
_EMPTY = re.compile(
    rf"[\W_]*(?:(?:{'|'.join(map(re.escape, sorted(ABSENT_WORDS)))})[\W_]*)?|\s*\\N\s*",
    re.IGNORECASE,
)
_LONGEST_ABSENT = 300
#: Error values that Excel shows, such as ``#NAME?``, ``#DIV/0!`` and ``####``; the content is lost.
#: Also a pattern for polars. ``#N/A`` is not among them: it can mean that there was no content.
LOST = r"^\s*=?#(?:DIV/0!|[^\s\d#!?/]{2,20}[!?]|#+)\s*$"
_SPREADSHEET_ERROR = re.compile(rf"{LOST}|^\s*#N/A!?\s*$", re.IGNORECASE)


#: Matches reports in English, short ones also by other words; for polars.
ENGLISH = (
    rf"\b(?:{_TABLE['english']})\b"
    rf"|^\W*(?:\w+\W+){{0,2}}(?:{_TABLE['short english']})s?(?:\W+\w+){{0,2}}\W*$"
    rf"|^[\W\d_]*$"
)


@lru_cache(maxsize=4096)  # the rows of an examination have one text
def is_absent(text: str) -> bool:
    """Return whether a text that is not blank has no letter or digit, or has only
    :data:`ABSENT_WORDS`, words for a report to come, empty fields of a template, or an error of a
    spreadsheet. Case and punctuation are ignored."""
    if len(text) >= _LONGEST_ABSENT:
        return False
    is_marker = _ABSENT.fullmatch(text) is not None and text.strip() != ""
    return is_marker or _SPREADSHEET_ERROR.search(text) is not None


def is_empty_cell(cell: str) -> bool:
    """Return whether a cell of a column without reports has no letter or digit, or is one of
    :data:`ABSENT_WORDS`."""
    return bool(_EMPTY.fullmatch(cell))


#: A number as spreadsheets and decimal types write a long id: with an exponent, or whole with a
#: decimal point.
_ROUNDED = re.compile(
    r"[+-]?(?:\d+[.,]\d*e[+-]?\d+|\d+e\+\d+|(\d{16,})[.,]0*)", re.IGNORECASE | re.ASCII
)
#: From here on, float64 cannot represent every whole number.
LARGEST_EXACT = 2**53


def rounding_fault(text: str) -> str | None:
    """Return the reason why a text cannot be an id: a spreadsheet or a number type has rounded it
    (``1.23457E+12``), or it is an error such as ``#N/A``. Else return None."""
    if text.isalnum():  # most ids, and much faster
        return None
    if _SPREADSHEET_ERROR.search(text):
        return "a spreadsheet error, not an id"
    match = _ROUNDED.fullmatch(text.strip())
    if match is None or (match[1] and int(match[1]) < LARGEST_EXACT):
        return None
    return (
        "an id that a spreadsheet or a numeric type has rounded, so different ids may have become "
        "the same; export the ids as text from the original source"
    )


#: Words that programs write into an empty cell; unlike ``N/A``, none can be an id.
EMPTY_CELL = r"(?i)^\s*(?:nan|nat|none|null|<na>|undefined|\\N)?\s*$"

#: Maximum number of characters in an id.
LONGEST_ID = 200


def id_fault(text: str) -> str | None:
    """Return the reason why a text cannot be the id of a record, examination or patient, else
    None."""
    if text != text.strip() or not text:
        return "an id must not be empty, or start or end with a space"
    if len(text) > LONGEST_ID:
        return f"an id must have at most {LONGEST_ID} characters, not {len(text):,}"
    if not text.isprintable():
        character = next(character for character in text if not character.isprintable())
        return (
            f"character {text.index(character) + 1} of the id is U+{ord(character):04X}, which is "
            "invisible; remove it"
        )
    return rounding_fault(text)


def name_on_disk(path: str, folder: str | Path) -> str:
    """Return a path in a user's file, relative to ``folder``, in the form that a file has: as it
    is, with ``/`` for Windows' backslashes, or in the other Unicode form (macOS and others write
    letters with accents differently)."""
    slashed = path.replace("\\", "/")
    if path == slashed and path.isascii():
        return path
    forms = (path, slashed, *(unicodedata.normalize(form, slashed) for form in ("NFC", "NFD")))
    return next((form for form in forms if os.path.exists(os.path.join(folder, form))), slashed)


def path_outside_root(path: str) -> str | None:
    """Return the reason why a path in a user's file is not below the folder that it is relative to;
    None if it is."""
    if path.startswith("/") or PureWindowsPath(path).drive:
        return "it is an absolute path; write it relative to the folder"
    if os.path.normpath(path).split("/")[0] == "..":
        return "it is outside the folder"
    return None
