"""Checks of the texts, ids and paths in users' files, the same wherever they are read."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import PureWindowsPath

#: Control characters other than tab and line ends.
CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
#: These, and half of a surrogate pair, which JSON can spell but no encoding, tokenizer or table has.
_NO_TEXT = re.compile(rf"{CONTROL}|[\ud800-\udfff]")


def fault_of(text: str) -> str | None:
    """The first character that no text holds, in words; None where there is none."""
    fault = _NO_TEXT.search(text)
    if fault is None:
        return None
    kind = "half of a surrogate pair:" if "\ud800" <= fault[0] <= "\udfff" else "the control character"
    return f"character {fault.start() + 1:,} is {kind} U+{ord(fault[0]):04X}; give plain text"


#: How programs and people write that there is no text, what is neither letter nor digit around it left out.
ABSENT_WORDS = frozenset({"n/a", "n.a", "na", "nan", "nat", "nil", "none", "null", "not available", "not applicable"})
_ABSENT = re.compile(rf"[\W_]*(?:(?:{'|'.join(map(re.escape, sorted(ABSENT_WORDS)))})[\W_]*)?", re.IGNORECASE)


def is_absent(text: str) -> bool:
    """Whether a text that is not blank has no letter or digit, or is one of :data:`ABSENT_WORDS`, in any case and with
    marks around it."""
    return bool(_ABSENT.fullmatch(text) and text.strip())


#: Ids are names: characters in one.
LONGEST_ID = 200


def id_fault(text: str) -> str | None:
    """Why a text is no id of a record, study or patient; None where it may be one."""
    if text != text.strip() or not text:
        return "an id is not blank and has no blanks at its ends"
    if len(text) > LONGEST_ID:
        return f"an id has {len(text):,} characters, more than {LONGEST_ID}"
    place = next((number for number, character in enumerate(text) if not character.isprintable()), None)
    if place is not None:
        return f"character {place + 1} of an id is U+{ord(text[place]):04X}, which does not show"
    return None


def cell(text: str) -> str:
    """A user's text as a cell of a CSV file that people open: a spreadsheet must not take it for a formula."""
    return f"'{text}" if text.startswith(tuple("=+-@\t\r")) else text


def file_name(text: str) -> str:
    """An id of the user's as part of a file's name, another one for every id: letters, digits, ``_`` and ``-`` alone,
    and the beginning of its hash where that changes it or cuts it (at 80)."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", text)[:80]
    return name if name == text else f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def path_outside_root(path: str) -> str | None:
    """Why a relative path that a user's file holds is not below the folder it counts from; None where it is."""
    if path.startswith("/") or PureWindowsPath(path).drive:
        return "it is an absolute path; write it relative to the folder"
    return "it is outside the folder" if os.path.normpath(path).split("/")[0] == ".." else None
