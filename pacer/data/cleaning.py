"""Report cleaning by upstream's rules, exactly.

Both give the form that reports are trained on and scored in: lower-case sentences, each followed by ``" ."``.

``upstream`` is what LLM-RG4 does for MIMIC. The paper scores "Clean NLG" on text in this form, so every quirk is kept:
``1. `` disappears wherever it stands ("in 2021. New" becomes "in 202new"), decimals lose their point, slashes join
words, a blank left by a removed underscore stays, and an empty sentence stays as a blank between two periods. Cleaning
twice is not the same as cleaning once: do it at reading, and never again.

``iu_xray`` is what R2Gen, and LLM-RG4 after it, do for IU X-Ray (Open-I). It has the same quirks but for three: line
breaks, underscores and runs of blanks stand as they are until the underscores are deleted, three passes shrink
periods, and colons and ``< = > @`` vanish.

Scores of different cleaners are not comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

#: (run, what it shrinks to, how often). Repetition is bounded, so runs longer than 2**times are not shrunk to one.
_RUNS: tuple[tuple[str, str, int], ...] = (("__", "_", 7), ("  ", " ", 6), ("..", ".", 8))

#: Marks of enumeration in the order of their removal.
_MARKS = (*(f". {number}. " for number in range(2, 6)), *(f" {number}. " for number in range(2, 6)))

_QUOTES_AND_SLASHES = str.maketrans("", "", "\"/\\'")
_PUNCTUATION = str.maketrans("", "", ".,?;*!%^&_+()[]{}")
#: IU X-Ray's class of characters has ``:-\[``, which is a range: these, and capitals, which are lowered by then.
_IU_PUNCTUATION = _PUNCTUATION | str.maketrans("", "", ":<=>@")


def clean_report(text: str) -> str:
    """The report as lower-case sentences, each followed by ``" ."`` (an empty text gives ``" ."``).

    Equal to LLM-RG4's MIMIC cleaner on every input.
    """
    text = text.replace("\n", " ")
    for run, single, times in _RUNS:
        while times and run in text:
            text = text.replace(run, single)
            times -= 1
    return _sentences(_without_marks(text).replace(":", " :"), _PUNCTUATION)


def clean_report_iu_xray(text: str) -> str:
    """The report as :func:`clean_report` gives it, by R2Gen's rules for IU X-Ray (LLM-RG4's copy is the same).

    Equal to R2Gen's ``clean_report_iu_xray`` on every input.
    """
    for _ in range(3):
        text = text.replace("..", ".")
    return _sentences(_without_marks(text), _IU_PUNCTUATION)


def _without_marks(text: str) -> str:
    """The text without marks of enumeration."""
    text = text.replace("1. ", "")
    for mark in _MARKS:
        text = text.replace(mark, ". ")
    return text


def _sentences(text: str, punctuation: dict[int, Any]) -> str:
    """The text's sentences in lower case, without quotes, slashes and ``punctuation``, each followed by ``" ."``."""
    sentences = [sentence.translate(_QUOTES_AND_SLASHES).strip() for sentence in text.strip().lower().split(". ")]
    return " . ".join(sentence.translate(punctuation) for sentence in sentences) + " ."


#: The versions of report cleaning by name.
CLEANERS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"upstream": clean_report, "iu_xray": clean_report_iu_xray}
)
