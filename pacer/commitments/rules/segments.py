"""Segmentation of a report into lower-case sentences and semicolon clauses, with their positions in the report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

#: Ends of segments; the periods of decimal numbers, "vs." and "dr." do not count.
_END = re.compile(r"[.;!](?<!\bvs\.)(?<!\bvs \.)(?<!\bdr\.)(?:(?<=!)|(?!\d))")
_QUESTION = re.compile(r"(?<=\w\?)\s")
#: A line break before a blank line or before an item of a list.
_PARAGRAPH = re.compile(r"\n(?=\s*(?:\n|[-*•] |\d{1,2}[.)] ))")
#: Punctuation within a sentence becomes blank, and all digits become 0, because no rule uses the value of a number.
_PLAIN = str.maketrans(dict.fromkeys(',:/\\()[]{}"_*&+', " ") | dict.fromkeys("123456789", "0"))
_WORD = re.compile(r"\S+")


def segments(report: str) -> list[str]:
    """Split a report into lower-case segments without punctuation; some may be empty or have consecutive blanks."""
    return _END.split(_normalise(report))


def located_segments(report: str) -> Iterator[tuple[str, list[int]]]:
    """Yield the non-empty segments, with single blanks, and the place in the report of each of their characters. A
    blank has the place of the first blank that it replaces."""
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
    """Lower-case a report, mark the ends of segments, and replace punctuation and digits; the length is unchanged."""
    text = report.lower()
    if len(text) != len(report):  # a few capitals become two characters in lower case
        text = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in report)
    if "?" in text:
        text = _QUESTION.sub("!", text)
    if "\n" in text:
        text = _PARAGRAPH.sub("!", text)
    return text.translate(_PLAIN)
