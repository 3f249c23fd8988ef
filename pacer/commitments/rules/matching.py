"""The search for the rows of a table in a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, reduce
from importlib import import_module
from operator import or_
from typing import Any, NamedTuple

from pacer.commitments.rules.table import Row

#: The parser of the standard library's regular expressions.
_parser: Any = import_module("re._parser")

_END: Any = (None, None)

#: Maximum number of distinct words whose rows are cached.
_WORDS = 1 << 16


class Match(NamedTuple):
    """The place of a row's words in a text."""

    start: int
    end: int
    row: Row


def literals(words: str) -> frozenset[str]:
    """Return pieces of words of which every match of a regular expression contains at least one. Text that has none of
    them need not be searched. Empty if there are no such pieces."""
    return _literals(_parser.parse(words))


def _literals(items: Any) -> frozenset[str]:
    """Return the pieces that a sequence of parsed items requires: those of its most telling item."""
    choices: list[frozenset[str]] = []
    run = ""
    for operation, value in [*items, _END]:
        if operation is _parser.LITERAL and chr(value) not in " -":
            run += chr(value)
            continue
        if run:
            choices.append(frozenset((run,)))
            run = ""
        if operation is _parser.SUBPATTERN:
            choices.append(_literals(value[-1]))
        elif operation is _parser.BRANCH:
            branches = [_literals(branch) for branch in value[1]]
            choices.append(frozenset[str]().union(*branches) if all(branches) else frozenset())
        elif operation in (_parser.MAX_REPEAT, _parser.MIN_REPEAT) and value[0] > 0:
            choices.append(_literals(value[2]))
    return max(choices, key=lambda pieces: min(map(len, pieces), default=0), default=frozenset())


class Patterns:
    """The rows of a table. If two matches overlap, the earlier start wins, then the earlier row.

    The words of a text determine which rows can match, and this is cached by word: so a text costs one look-up per
    word, and only the few searches that its words require.
    """

    def __init__(self, rows: Sequence[Row]):
        self._rows = rows
        expressions = [f"(?:{row.words})" if row.anywhere else f" (?:{row.words})" for row in rows]
        self._searches = [(rank, re.compile(text).finditer) for rank, text in enumerate(expressions)]
        self._bits: dict[str, int] = {}
        for rank, row in enumerate(rows):
            for piece in literals(row.words) or ("",):  # nothing at all is a piece of every word
                self._bits[piece] = self._bits.get(piece, 0) | 1 << rank
        self._called_for = lru_cache(maxsize=_WORDS)(self._rows_of)
        self._of_mask = lru_cache(maxsize=_WORDS)(lambda mask: [s for s in self._searches if mask >> s[0] & 1])

    def find(self, text: str, words: list[str]) -> list[Match]:
        """Find the matches in ``text`` (``words`` joined by single blanks), in order and without overlaps."""
        mask = reduce(or_, map(self._called_for, words), 0)
        if not mask:
            return []
        padded, hits = f" {text}", []
        for rank, search in self._of_mask(mask):
            for match in search(padded):
                start, end = match.span()
                hits.append((start if padded[start] == " " else start - 1, rank, end - 1))
        free, matches = 0, []
        for start, rank, end in sorted(hits):
            if start >= free:
                matches.append(Match(start, end, self._rows[rank]))
                free = end
        return matches

    def _rows_of(self, word: str) -> int:
        """Return the rows that a word can be part of, one bit each."""
        return reduce(or_, (bits for piece, bits in self._bits.items() if piece in word), 0)
