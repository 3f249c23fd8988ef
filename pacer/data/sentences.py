"""Sentences of reports: their removal from raw text, and their ends and marks (emphasis) in cleaned text."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

from pacer.data.cleaning import without_item_numbers

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
#: An abbreviation that does not end a sentence.
_UNFINISHED = re.compile(r"\b(?:Drs?|Mrs?|Ms|St|[Vv]s|[Aa]pprox|i\.e|e\.g)\.$")
#: A word too long to be an abbreviation, except for those above.
_WHOLE_WORD = re.compile(r"[A-Za-z]{5}[.!?]$")
_TIME_OF_DAY = re.compile(r"\b[AaPp]\.[Mm]\.$")  # ends a sentence only before a capital
_CLEANED_END = re.compile(r" \.(?= |$)")


def without_sentences(text: str, unwanted: Callable[[str], object]) -> str | None:
    """Return the sentences of a raw text that are not ``unwanted``, joined by single spaces; None if no text is left.
    If sentences are removed, the items of a list lose their numbers."""
    cased = text != text.lower()
    sentences: list[str] = []
    for piece in _SENTENCE_END.split(without_item_numbers(text).strip()):
        if sentences and _goes_on(sentences[-1], piece, cased):
            sentences[-1] += f" {piece}"
        else:
            sentences.append(piece)
    wanted = [sentence for sentence in sentences if not unwanted(sentence)]
    joined = " ".join(_SENTENCE_END.split(text.strip()) if wanted == sentences else wanted)
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


def sentence_ends(report: str) -> list[int]:
    """Return the end of each sentence of a cleaned report: after its ``" ."``; for the last, the end of the text. The
    space between two sentences belongs to the second."""
    ends = [match.end() for match in _CLEANED_END.finditer(report)]
    return ends if ends and ends[-1] == len(report) else [*ends, len(report)]


def token_marks(ends: Sequence[int], marked: Sequence[bool], token_ends: Sequence[int]) -> list[float]:
    """Return emphasis as released (``new_scores``) for ``<s> report </s>``: 1.0 for every token whose last character is
    in a marked sentence, else 0.0; BOS and EOS are 0.0.

    Args:
        ends: ends of the sentences (:func:`sentence_ends`). marked: one value per sentence. token_ends: the end of each
            token of the report, ascending.
    """
    sentences = [min(bisect_left(ends, end), len(ends) - 1) for end in token_ends]
    return [0.0, *(float(marked[sentence]) for sentence in sentences), 0.0]
