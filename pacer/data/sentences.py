"""Removal of sentences from report text."""

from __future__ import annotations

import re
from collections.abc import Callable

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
#: The number of an item in a list.
_NUMBER = re.compile(r"(\d{1,2})[.)](?:\s+|$)")
#: An abbreviation that does not end a sentence.
_UNFINISHED = re.compile(r"\b(?:Drs?|Mrs?|Ms|St|[Vv]s|[Aa]pprox|i\.e|e\.g)\.$")
#: A word too long to be an abbreviation, except for those above.
_WHOLE_WORD = re.compile(r"[A-Za-z]{5}[.!?]$")
_TIME_OF_DAY = re.compile(r"\b[AaPp]\.[Mm]\.$")  # ends a sentence only before a capital


def without_sentences(text: str, unwanted: Callable[[str], object]) -> str | None:
    """Return the sentences of a raw text that are not ``unwanted``, joined by single blanks; None if no text is left.
    If sentences are removed, the items of a list lose their numbers."""
    pieces = _SENTENCE_END.split(text.strip())
    cased = text != text.lower()
    sentences: list[str] = []
    item, begins = 0, True
    for piece in pieces:
        if number := _NUMBER.match(piece):
            item, begins, piece = int(number[1]), True, piece[number.end() :]
        before_item = item > 0 and piece.endswith(f" {item + 1}.")  # "1. No edema 2. Clear"
        if before_item:
            item += 1
            piece = piece.removesuffix(f" {item}.") + "."
        if begins or not _goes_on(sentences[-1], piece, cased):
            sentences += [piece] if piece else []
        else:
            sentences[-1] += f" {piece}"
        begins = before_item or not piece or not sentences
    wanted = [sentence for sentence in sentences if not unwanted(sentence)]
    joined = " ".join(pieces if wanted == sentences else wanted)
    return joined if says_something(joined) else None


def _goes_on(sentence: str, piece: str, cased: bool) -> bool:
    """Whether a piece continues the preceding sentence. ``cased``: the text has capitals, so sentences begin with
    one."""
    begins_small = piece[:1].islower() or piece[:1].isdigit()
    at_a_time = _TIME_OF_DAY.search(sentence) is not None and not piece[:1].isupper()
    shortened = begins_small and _WHOLE_WORD.search(sentence) is None
    return (cased and shortened) or at_a_time or _UNFINISHED.search(sentence) is not None


def says_something(text: str) -> bool:
    """Whether a text contains a letter or digit."""
    return any(character.isalnum() for character in text)
