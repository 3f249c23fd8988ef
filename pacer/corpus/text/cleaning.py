"""Report cleaning: upstream's rules exactly, and a careful version without their accidents.

All give the form that reports are trained on and scored in: lower-case sentences, each followed by ``" ."``.

``upstream`` is what LLM-RG4 does for MIMIC. The paper scores "Clean NLG" on text in this form, so every quirk is kept:
``1. `` disappears wherever it stands ("in 2021. New" becomes "in 202new"), decimals lose their point, slashes join
words, a blank left by a removed underscore stays, and an empty sentence stays as a blank between two periods. Cleaning
twice is not the same as cleaning once: do it at reading, and never again.

``iu_xray`` is what R2Gen, and LLM-RG4 after it, do for IU X-Ray (Open-I). It has the same quirks but for three: line
breaks, underscores and runs of blanks stand as they are until the underscores are deleted, three passes shrink
periods, and colons and ``< = > @`` vanish.

``careful`` keeps numbers and words whole, and cleaning its output changes nothing. Scores of different cleaners are not
comparable.
"""

from __future__ import annotations

import re
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


#: Apostrophes vanish ("it's" is one word); everything else that is no part of a word or number leaves a blank.
_TO_BLANKS = str.maketrans(dict.fromkeys('_"*^&+()[]{},“”', " ") | dict.fromkeys("'‘’", "") | {"\\": "/"})
_LISTED_LINE = re.compile(r"\n(?=\d{1,2}[.)]\s)")
_BRACKET_MARK = re.compile(r"(^|[.?!;] )(\d{1,2})\) ")
_THOUSANDS = re.compile(r",(?=\d{3}(?!\d))(?<=\d,)")
_ELLIPSIS = re.compile(r"\.{2,}")
_GLUED_SENTENCE = re.compile(r"\.(?=[A-Z])(?<=[a-z0-9]\.)")
_ABBREVIATION = re.compile(r"\.(?=[^\W\d_])(?<=[^\W\d_]\.)")
_NOT_DECIMAL = re.compile(r"\.(?=\S)(?:(?!\d)|(?<=[^\W\d_]\.))")
_COLON = re.compile(r":(?!(?<=\d:)\d)")
_WORD = re.compile(r"[^\W_]")
_TITLES = ("dr", "drs", "mrs", "prof", "vs")


def clean_report_carefully(text: str) -> str:
    """The report as lower-case sentences, each followed by ``" ."``, with words and numbers kept whole.

    * Sentences end at a period, question mark, exclamation mark or semicolon before white space (the clauses around a
      semicolon state their findings independently), at a run of periods, and at a period between "a" and "B".
      "dr.", "drs.", "mrs.", "prof." and "vs." end none. A sentence without letter or digit is left out, so a text
      without any gives ``""``.
    * A number of one or two digits that is a whole sentence ("2. Clear", also "2) Clear"), at the start of a line too,
      is a mark of enumeration and vanishes, unless it is the last sentence. All other digits stay, with their decimal
      points ("1.2", ".5") and with the colon of a time ("9:30"). A comma before three digits vanishes ("1,200").
    * A slash stands alone between blanks ("ng tube / og tube"): it means "or", and words are not joined. So does a
      colon. Apostrophes and the periods of "p.m" vanish; ``% < > = @ -`` stay; other punctuation and the underscores
      of de-identified text become a blank.
    * White space of any kind becomes one blank. Cleaning again changes nothing.
    """
    # White space first: everything below may then rely on single blanks and line feeds.
    lines = [" ".join(line.split()) for line in text.splitlines()]
    text = "\n".join([line for line in lines if line])
    text = _LISTED_LINE.sub(". ", text).replace("\n", " ")
    text = _BRACKET_MARK.sub(r"\1\2. ", text)
    for end in "?!;":
        text = text.replace(f"{end} ", ". ").replace(end, " ")
    text = _THOUSANDS.sub("", text)
    text = _ELLIPSIS.sub(". ", text.translate(_TO_BLANKS))
    text = _GLUED_SENTENCE.sub(". ", text).lower()
    text = _NOT_DECIMAL.sub(" ", _ABBREVIATION.sub("", text))
    text = _COLON.sub(" : ", text)
    text = f" {text} ".replace("/", " / ")
    for title in _TITLES:
        text = text.replace(f" {title}. ", f" {title} ")
    sentences = [sentence.strip() for sentence in text.split(". ") if _WORD.search(sentence)]
    if not sentences:
        return ""
    last = sentences.pop()
    sentences = [s for s in sentences if len(s) > 2 or not s.isdecimal()]
    return " ".join(" . ".join([*sentences, last, ""]).split())


#: The versions of report cleaning by name.
CLEANERS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"upstream": clean_report, "iu_xray": clean_report_iu_xray, "careful": clean_report_carefully}
)
