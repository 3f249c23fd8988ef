"""Evidence phrases of labelling answers against the report that they were drawn from."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SEPARATORS = re.compile(r"[\W_]+")


def count_missing(phrases: Iterable[str], report: str) -> int:
    """How many phrases do not stand in the report, whatever their case, blanks and punctuation.

    The prompt allows paraphrases, so a missing phrase is a figure for the audit, no error. A phrase without any letter
    or digit is missing.
    """
    words = _words(report)
    return sum(phrase.isspace() or phrase not in words for phrase in map(_words, phrases))


def _words(text: str) -> str:
    """The words in lower case between single blanks, with a blank at both ends so that only whole words match."""
    return f" {_SEPARATORS.sub(' ', text.lower()).strip()} "
