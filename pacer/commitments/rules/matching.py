"""Named surface patterns, and the search for their non-overlapping matches in a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

#: Start, end and name of a match.
Match = tuple[int, int, str]

#: Maximum number of distinct words whose patterns are cached.
_WORDS = 1 << 16


class Pattern(NamedTuple):
    """A named regular expression for text with a blank before it; a leading blank is not part of the match. (An
    expression that begins with a blank is fast, because the search only tries the starts of words.)

    ``stems``: every match needs a word that contains one of them (``=no``: the exact word, also as part of a hyphenated
    word). Text without such a word need not be searched.
    """

    name: str
    stems: tuple[str, ...]
    expression: str


def entries(table: str) -> list[list[str]]:
    """Split a table of patterns into the fields and expression of each entry. An entry is a line of fields separated
    by bars, followed by the indented lines of the expression, which are joined. Lines starting with # are comments."""
    parts = (entry.splitlines() for entry in re.split(r"^(?=\S)", table, flags=re.MULTILINE)[1:])
    return [[*map(str.strip, head.split("|")), "".join(map(str.strip, lines))] for head, *lines in parts if lines]


class Patterns:
    """An ordered set of patterns. If two matches overlap, the earlier start wins, then the earlier pattern.

    Names may repeat. The words of a text determine which patterns can match, and this is cached by word: so a text
    costs one look-up per word, and only the two or three searches that its words require.
    """

    def __init__(self, patterns: Sequence[Pattern]):
        self._names = [pattern.name for pattern in patterns]
        self._searches = [(rank, re.compile(pattern.expression).finditer) for rank, pattern in enumerate(patterns)]
        self._whole: dict[str, int] = {}  # the patterns that a whole word requires, one bit each
        self._part: dict[str, int] = {}  # the patterns that any word with this substring requires
        for rank, pattern in enumerate(patterns):
            for stem in pattern.stems:
                bits, key = (self._whole, stem[1:]) if stem.startswith("=") else (self._part, stem)
                bits[key] = bits.get(key, 0) | 1 << rank
        self._called_for = lru_cache(maxsize=_WORDS)(self._stems_in)
        self._of_mask = lru_cache(maxsize=_WORDS)(lambda mask: [s for s in self._searches if mask >> s[0] & 1])

    def find(self, text: str, words: list[str]) -> list[Match]:
        """Find the matches in ``text`` (``words`` joined by single blanks), in order and without overlaps."""
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
        """Return the patterns that a word requires, one bit each."""
        mask = 0
        for part in re.split(r"\W+", word):
            mask |= self._whole.get(part, 0)
        for stem, bits in self._part.items():
            if stem in word:
                mask |= bits
        return mask
