"""Open-I's mark of removed words: what becomes of a text that holds one."""

from __future__ import annotations

import re

from pacer.corpus.text.sentences import says_something, without_sentences

#: What the collection writes for one or several words that were taken out, with what clings to it.
_MARK = re.compile(r"[-/]*X{4,}(?:'s\b)?[-/]*")


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
        return without_sentences(text, _MARK.search)
    kept = re.sub(r"\(\s*[.,;:]*\s*\)", " ", re.sub(r"\s+", " ", _MARK.sub(" ", text)))
    kept = re.sub(r"(?<=\() *[.,;:]* +", "", kept)
    kept = re.sub(r"[,;:] +(?=[.,;:!?)])", " ", kept)  # of two punctuation marks that meet, the lesser goes
    kept = re.sub(r"(?<=[.!?])(?: +[.,;:!?]+(?!\w))+", "", kept)
    kept = re.sub(r" +(?=[.,;:!?)](?!\w))", "", kept)
    kept = re.sub(r"\s+", " ", re.sub(r"^[\s.,;:!?)/-]+", "", kept)).rstrip()
    return kept if says_something(kept) else None
