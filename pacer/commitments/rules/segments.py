"""Segmentation of a report into lower-case sentences, clauses and items, with their positions in the report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from pacer.commitments.rules.table import GROUPS

#: Ends of segments; the periods of decimal numbers, "vs." and "dr." do not count.
_END = re.compile(r"[.;!](?<!\bvs\.)(?<!\bvs \.)(?<!\bdr\.)(?:(?<=!)|(?!\d))")
#: Punctuation within a sentence becomes blank, and all digits become 0, because no rule uses the value of a number.
_PLAIN = str.maketrans(dict.fromkeys(',:/\\()[]{}"_*&+', " ") | dict.fromkeys("123456789", "0"))
_WORD = re.compile(r"\S+")

_ABOUT = f"(?i:{GROUPS['aside']})"
#: A section that says what was asked or done, not what is seen, up to the next heading.
_ASIDE = re.compile(
    rf"(?:^|(?<=\n)|(?<=[.!?;] ))[ \t]*{_ABOUT}\s*:.*?(?=(?:\n|(?<=[a-z.!?;]) )\s*(?!{_ABOUT}\b)"
    r"(?:(?i:findings?|impressions?|conclusions?)\b[^:\n]{0,30}|[A-Z][A-Z /&-]{3,40}):)",
    re.DOTALL,
)
#: The line before a break is a whole item. (Each word looks back by itself, because their lengths differ.)
_WHOLE = "(?<!,)(?<!-)" + "".join(rf"(?<!\b{word})" for word in GROUPS["unfinished"][3:-1].split("|"))
#: Where a segment ends besides punctuation: a question, a paragraph, an item of a list, a line that begins with a
#: capital after a line that is a whole item, and the next label of a line of labels.
_BREAK = re.compile(
    r"(?<=\w\?)\s|\n(?=[^\S\n]*(?:\n|[-*•] |\d{1,2}[.)] |[a-z]\) ))"
    rf"|(?i:{_WHOLE})[ \t]*\n(?=[ \t]*[A-Z][a-z])"
    r"|(?<=[a-z)]) (?=[A-Z][a-z]+(?: [a-z]+){0,2}: )"
)
#: Where the items of a list of short lines end, whatever their letters.
_ITEM = re.compile(rf"(?i:{_WHOLE}[ \t]*\n(?![ \t]*(?:and|or|nor|with|in|at|of|on|is|are|to|which)\b))")
_ITEM_LENGTH = 40
#: Texts that change their length: words that a hyphen and a line break or a soft hyphen divide, negative contractions
#: (the cleaner drops the apostrophe), a label that its value repeats, and the value of a name ("Pneumothorax: no"),
#: which ends its segment.
_EDITS = re.compile(
    r"(?P<joined>\xad\s*|(?<=[a-z])-\n\s*(?=[a-z]))"
    r"|\b(?P<verb>is|are|was|were|do|does|did|has|have|had|could|would|should|ca|wo)n['’]?t\b"
    r"|\b(?P<label>[a-z]{4,}?)s?\s*:(?=[^.;:\n]*\b(?P=label))"
    rf"|\s*(?:[:=]|\?!|(?<=\s)[-–—](?=\s)|(?=\((?:[-−–+]|no|yes|absent|present)))\s*(?P<value>{GROUPS['value']})"
    r"(?=\s*(?:[.,;!?/|\n]|$|[a-z][a-z ]{2,30}(?::|\s[-–—]\s)))"
)
#: Every text to edit has one of these; looking for them is faster.
_SIGNS = ("\xad", "-\n", "- ", ":", "=", "(", "'t", "’t", "snt ", "rent ", "dnt ", "cant ", "wont ", "?!", "– ", "— ")
_DENIED = re.compile(r"\(?[-−–]\)?")


def segments(report: str) -> list[str]:
    """Split a report into lower-case segments without punctuation; some may be empty or have consecutive blanks."""
    return _END.split(_normalise(report)[0])


def located_segments(report: str) -> Iterator[tuple[str, list[int]]]:
    """Yield the non-empty segments, with single blanks, and the place in the report of each of their characters. A
    blank has the place of the first blank that it replaces."""
    text, edits = _normalise(report)
    origin: list[int] = []
    done = 0
    for start, end, edited in edits:
        origin += [*range(done, start), *edited]
        done = end
    origin += range(done, len(report))
    bounds = [0, *(place for end in _END.finditer(text) for place in end.span()), len(text)]
    for first, last in list(pairwise(bounds))[::2]:
        places: list[int] = []
        for word in _WORD.finditer(text, first, last):
            if places:
                places.append(places[-1] + 1)
            places += (origin[place] for place in range(*word.span()))
        if places:
            yield " ".join(text[first:last].split()), places


def _normalise(report: str) -> tuple[str, list[tuple[int, int, list[int]]]]:
    """Lower-case a report, mark the ends of segments, and replace punctuation and digits.

    Returns:
        The text, and what was replaced by text of another length: start and end in the report, and the place there of
        each new letter.
    """
    text, edits = report, list[tuple[int, int, list[int]]]()
    if ":" in text:
        text = _ASIDE.sub(lambda aside: "!" + " " * (len(aside[0]) - 1), text)
    if "\n" in text or "?" in text or ":" in text:
        text = _BREAK.sub(lambda gap: "!" + " " * (len(gap[0]) - 1), text)
    if text.count("\n") > 1 and max(map(len, text.splitlines())) <= _ITEM_LENGTH:
        text = _ITEM.sub(lambda gap: "!" + " " * (len(gap[0]) - 1), text)
    lower = text.lower()
    if len(lower) != len(text):  # a few capitals become two characters in lower case
        lower = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)
    if any(sign in lower for sign in _SIGNS):
        edits = [(*match.span(), _places(match)) for match in _EDITS.finditer(lower)]
        lower = _EDITS.sub(_edited, lower)
    return lower.translate(_PLAIN), edits


def _edited(match: re.Match[str]) -> str:
    if match["joined"] or match["label"]:
        return " " * bool(match["label"])
    if match["verb"]:
        return {"ca": "can", "wo": "will"}.get(match["verb"], match["verb"]) + " not"
    return f" ={_DENIED.sub('-', match['value'])}!"


def _places(match: re.Match[str]) -> list[int]:
    """Return the place in the report of each letter of the new text; a value has two signs before it."""
    first, ahead = (match.start("value"), 2) if match["value"] else (match.start(), 0)
    return [min(first + max(step - ahead, 0), match.end() - 1) for step in range(len(_edited(match)))]
