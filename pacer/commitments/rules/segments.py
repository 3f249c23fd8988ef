"""A report as sentences and semicolon clauses, in lower case, and where each stands in the report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

#: Periods of decimal numbers and of "vs." and "dr." end nothing.
_END = re.compile(r"[.;!](?<!\bvs\.)(?<!\bvs \.)(?<!\bdr\.)(?:(?<=!)|(?!\d))")
_QUESTION = re.compile(r"(?<=\w\?)\s")
#: A blank line, and a line that begins an item of a list.
_PARAGRAPH = re.compile(r"\n(?=\s*(?:\n|[-*•] |\d{1,2}[.)] ))")
#: Punctuation within a sentence becomes blank, and all numbers look alike: no rule asks for their value.
_PLAIN = str.maketrans(dict.fromkeys(',:/\\()[]{}"_*&+', " ") | dict.fromkeys("123456789", "0"))
_WORD = re.compile(r"\S+")


def segments(report: str) -> list[str]:
    """The segments of a report in lower case, without punctuation; some may be empty or have blanks in a row."""
    return _END.split(_normalise(report))


def located_segments(report: str) -> Iterator[tuple[str, list[int]]]:
    """The segments that hold a word, with single blanks, and for each of their characters its place in the report. A
    blank has the place of the first that it stands for."""
    text = _normalise(report)
    bounds = [0, *(place for end in _END.finditer(text) for place in end.span()), len(text)]
    for first, last in list(pairwise(bounds))[::2]:
        places: list[int] = []
        for word in _WORD.finditer(text, first, last):
            if places:
                places.append(places[-1] + 1)
            places += range(*word.span())
        if places:
            yield " ".join(text[first:last].split()), places


def _normalise(report: str) -> str:
    """Lower case, ends of segments marked, punctuation and numbers plain; as long as the report."""
    text = report.lower()
    if len(text) != len(report):  # a few capitals have two small letters
        text = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in report)
    if "?" in text:
        text = _QUESTION.sub("!", text)
    if "\n" in text:
        text = _PARAGRAPH.sub("!", text)
    return text.translate(_PLAIN)
