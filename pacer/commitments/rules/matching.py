"""The search for the rows of a table in a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pacer.commitments.rules.table import Row


class Match(NamedTuple):
    """The place of a row's words in a text."""

    start: int
    end: int
    row: Row


class Patterns:
    """The rows of a table as one regular expression. If two matches overlap, the earlier start wins, then the earlier
    row."""

    def __init__(self, rows: Sequence[Row]):
        anywhere = [row for row in rows if row.anywhere]
        self._rows = [*rows, *anywhere]
        # the empty group that ends an alternative tells which row has matched
        at_word, inside = ("|".join(f"(?:{row.words})()" for row in part) for part in (rows, anywhere))
        self._expression = re.compile(f"(?<= )(?:{at_word})" + (f"|{inside}" if anywhere else ""))

    def find(self, text: str) -> list[Match]:
        """Find the matches in a text of words with single spaces between them, in order and without overlaps."""
        matches = self._expression.finditer(f" {text}")
        return [Match(match.start() - 1, match.end() - 1, self._rows[(match.lastindex or 0) - 1]) for match in matches]
