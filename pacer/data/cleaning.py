"""Report cleaning by upstream's rules, exactly.

Both cleaners return the form used for training and scoring: lower-case sentences, each followed by ``" ."``.

``upstream`` is LLM-RG4's cleaner for MIMIC. The paper scores "Clean NLG" on text in this form, so every quirk is kept:
``1. `` is removed everywhere ("in 2021. New" becomes "in 202new"), decimals lose their point, slashes join words, a
blank left by a removed underscore stays, and an empty sentence stays as a blank between two periods. Cleaning is not
idempotent: do it once, at reading, and never again.

``iu_xray`` is the cleaner of R2Gen, and of LLM-RG4 after it, for IU X-Ray (Open-I). It has the same quirks with three
differences: line breaks, underscores and runs of blanks are unchanged until underscores are deleted; three passes
shorten runs of periods; colons and ``< = > @`` are removed.

Scores of different cleaners are not comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

#: (run, replacement, maximum number of passes). A run longer than 2**passes is not reduced to one character.
_RUNS: tuple[tuple[str, str, int], ...] = (("__", "_", 7), ("  ", " ", 6), ("..", ".", 8))

#: Enumeration marks in the order of their removal.
_MARKS = (*(f". {number}. " for number in range(2, 6)), *(f" {number}. " for number in range(2, 6)))

_QUOTES_AND_SLASHES = str.maketrans("", "", "\"/\\'")
_PUNCTUATION = str.maketrans("", "", ".,?;*!%^&_+()[]{}")
#: IU X-Ray's character class contains the range ``:-\[``: these characters, and capitals, which are already lower-case.
_IU_PUNCTUATION = _PUNCTUATION | str.maketrans("", "", ":<=>@")


def clean_report(text: str) -> str:
    """Return the report as lower-case sentences, each followed by ``" ."`` (``" ."`` for an empty text).

    The result equals that of LLM-RG4's MIMIC cleaner on every input.
    """
    text = text.replace("\n", " ")
    for run, single, times in _RUNS:
        while times and run in text:
            text = text.replace(run, single)
            times -= 1
    return _sentences(_without_marks(text).replace(":", " :"), _PUNCTUATION)


def clean_report_iu_xray(text: str) -> str:
    """Return the report in the form of :func:`clean_report`, by R2Gen's rules for IU X-Ray (the same in LLM-RG4).

    The result equals that of R2Gen's ``clean_report_iu_xray`` on every input.
    """
    for _ in range(3):
        text = text.replace("..", ".")
    return _sentences(_without_marks(text), _IU_PUNCTUATION)


def _without_marks(text: str) -> str:
    text = text.replace("1. ", "")
    for mark in _MARKS:
        text = text.replace(mark, ". ")
    return text


def _sentences(text: str, punctuation: dict[int, Any]) -> str:
    """Return the sentences in lower case, without quotes, slashes and ``punctuation``, each followed by ``" ."``."""
    sentences = [sentence.translate(_QUOTES_AND_SLASHES).strip() for sentence in text.strip().lower().split(". ")]
    return " . ".join(sentence.translate(punctuation) for sentence in sentences) + " ."


#: The report cleaners by name.
CLEANERS: Mapping[str, Callable[[str], str]] = {"upstream": clean_report, "iu_xray": clean_report_iu_xray}
