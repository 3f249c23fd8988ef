"""Report text without some of its sentences."""

from __future__ import annotations

import re
from collections.abc import Callable

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
#: A piece that ends like this goes on in the next: a number in a list, a title before a name.
_UNFINISHED = re.compile(r"(?:^\d{1,2}|\b(?:Dr|Drs|Mr|Mrs|Ms|vs))\.$")


def without_sentences(text: str, unwanted: Callable[[str], object]) -> str | None:
    """The sentences of a raw text that are not ``unwanted``, with single blanks between them; None when none says
    anything."""
    sentences: list[str] = []
    for piece in _SENTENCE_END.split(text.strip()):
        if sentences and _UNFINISHED.search(sentences[-1]):
            sentences[-1] += " " + piece
        else:
            sentences.append(piece)
    kept = " ".join(sentence for sentence in sentences if not unwanted(sentence))
    return kept if says_something(kept) else None


def says_something(text: str) -> bool:
    """Whether there is a letter or digit in a text."""
    return any(character.isalnum() for character in text)
