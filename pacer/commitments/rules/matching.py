"""Named surface patterns, found in a text one after the other from left to right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

#: Start, end and name of a match.
Match = tuple[int, int, str]

#: Distinct words whose patterns are remembered.
_WORDS = 1 << 16


class Pattern(NamedTuple):
    """A regular expression with a name, for text with a blank before it; a blank that a match begins with is no part
    of it. (Expressions that begin with the blank before a word are searched at words alone, which is fast.)

    ``stems``: every text that the expression matches has a word that holds one of them (``=no``: the word itself, also
    as a part of a hyphenated one). A text without such a word need not be searched.
    """

    name: str
    stems: tuple[str, ...]
    expression: str


def entries(table: str) -> list[list[str]]:
    """The fields and the expression of each entry of a table of patterns: a line with bars between the fields, and
    below it, indented, the expression, whose lines are joined. Lines that begin with # are comments."""
    parts = (entry.splitlines() for entry in re.split(r"^(?=\S)", table, flags=re.MULTILINE)[1:])
    return [[*map(str.strip, head.split("|")), "".join(map(str.strip, lines))] for head, *lines in parts if lines]


class Patterns:
    """An ordered set of patterns. Where two match overlapping text, the earlier start wins, then the earlier pattern.

    Names may repeat. A text's words say which patterns can match it at all, and words repeat: so a text costs one
    look-up a word and the two or three searches that its words call for.
    """

    def __init__(self, patterns: Sequence[Pattern]):
        self._names = [pattern.name for pattern in patterns]
        self._searches = [(rank, re.compile(pattern.expression).finditer) for rank, pattern in enumerate(patterns)]
        self._whole: dict[str, int] = {}  # the patterns that a word calls for, one bit each
        self._part: dict[str, int] = {}  # and those that any word with these letters calls for
        for rank, pattern in enumerate(patterns):
            for stem in pattern.stems:
                bits, key = (self._whole, stem[1:]) if stem.startswith("=") else (self._part, stem)
                bits[key] = bits.get(key, 0) | 1 << rank
        self._called_for = lru_cache(maxsize=_WORDS)(self._stems_in)
        self._of_mask = lru_cache(maxsize=_WORDS)(lambda mask: [s for s in self._searches if mask >> s[0] & 1])

    def find(self, text: str, words: list[str]) -> list[Match]:
        """The matches in ``text``, ``words`` with single blanks between: in order, none overlapping another."""
        mask = 0
        for word in words:
            mask |= self._called_for(word)
        padded, hits = f" {text}", []
        for rank, search in self._of_mask(mask):
            for match in search(padded):
                start, end = match.span()
                hits.append((start if padded[start] == " " else start - 1, rank, end - 1))
        free, matches = 0, []
        for start, rank, end in sorted(hits):
            if start >= free:
                matches.append((start, end, self._names[rank]))
                free = end
        return matches

    def _stems_in(self, word: str) -> int:
        """The patterns that a word calls for, one bit each."""
        mask = 0
        for part in re.split(r"\W+", word):
            mask |= self._whole.get(part, 0)
        for stem, bits in self._part.items():
            if stem in word:
                mask |= bits
        return mask
