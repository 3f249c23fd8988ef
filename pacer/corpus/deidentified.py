"""Open-I's mark of removed words: what becomes of a text that holds one."""

from __future__ import annotations

import re

#: What the collection writes for one or several words that were taken out, with what clings to it.
_MARK = re.compile(r"[-/]*X{4,}(?:'s\b)?[-/]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
#: A piece that ends like this goes on in the next: a number in a list, a title before a name.
_UNFINISHED = re.compile(r"(?:^\d{1,2}|\b(?:Dr|Drs|Mr|Mrs|Ms|vs))\.$")


def has_marks(text: str) -> bool:
    """Whether words were taken out of a text."""
    return _MARK.search(text) is not None


def without_marks(text: str, how: str) -> str | None:
    """A text that holds ``XXXX``, treated as ``corpus.openi.deidentified`` says; None when nothing is left.

    ``keep`` changes nothing. ``remove`` deletes each mark with its hyphen, slash or 's, then tidies the blanks and
    punctuation of the text. ``drop_sentence`` deletes the sentences that hold one.
    """
    if how == "keep":
        return text
    if how == "drop_sentence":
        kept = " ".join(sentence for sentence in _sentences(text) if not _MARK.search(sentence))
    else:
        kept = re.sub(r"\(\s*[.,;:]*\s*\)", " ", re.sub(r"\s+", " ", _MARK.sub(" ", text)))
        kept = re.sub(r"(?<=\() *[.,;:]* +", "", kept)
        kept = re.sub(r"[,;:] +(?=[.,;:!?)])", " ", kept)  # of two punctuation marks that meet, the lesser goes
        kept = re.sub(r"(?<=[.!?])(?: +[.,;:!?]+(?!\w))+", "", kept)
        kept = re.sub(r" +(?=[.,;:!?)](?!\w))", "", kept)
        kept = re.sub(r"\s+", " ", re.sub(r"^[\s.,;:!?)/-]+", "", kept)).rstrip()
    return kept if any(character.isalnum() for character in kept) else None


def _sentences(text: str) -> list[str]:
    sentences: list[str] = []
    for piece in _SENTENCE_END.split(text.strip()):
        if sentences and _UNFINISHED.search(sentences[-1]):
            sentences[-1] += " " + piece
        else:
            sentences.append(piece)
    return sentences
