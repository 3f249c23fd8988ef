"""Texts are scored in one line each, whichever file they come from.

Words are what stands between blanks: of two words with a line break between them, pycocoevalcap's ROUGE-L makes one.
"""

from __future__ import annotations

import re

#: White space other than blanks.
_BREAK = re.compile(r"[^\S ]")


def has_breaks(text: str) -> bool:
    """Whether a text has line breaks, tabs or other white space besides blanks."""
    return _BREAK.search(text) is not None


def single_line(text: str) -> str:
    """A text in one line: line breaks, tabs and the blanks around them are one blank; doubled blanks stay, as in the
    pipeline's own reports."""
    lines = (line.strip() for line in _BREAK.split(text))
    return " ".join(filter(None, lines)) if has_breaks(text) else text
