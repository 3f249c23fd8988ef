"""Results as tables: as text in a terminal, as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tabulate import tabulate

#: No score of texts that match is below; pycocoevalcap gives some 1e-16 where nothing matches.
_NO_MATCH = 1e-4
#: What :func:`with_count` adds, below a table.
IN_BRACKETS = "in brackets: how many findings, or records, a score counts"
#: Headings and rows of a table, and sentences below it.
Shown = tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]


class Displayed:
    """Base of results that Python and notebooks show as a table."""

    def _shown(self) -> Shown:
        raise NotImplementedError

    def __repr__(self) -> str:
        heads, rows, notes = self._shown()
        return "\n".join([tabulate(rows, heads, disable_numparse=True, maxcolwidths=100), *notes])

    def _repr_html_(self) -> str:
        heads, rows, notes = self._shown()
        below = "".join(f"<p>{escape(note)}</p>" for note in notes)
        return tabulate(rows, heads, "html", disable_numparse=True) + below


def with_count(cell: str, count: int | None) -> str:
    """Add to a cell how many findings, or records, its score counts, if it says so."""
    return cell if count is None else f"{cell} ({count:,})"


def three_decimals(value: float | int | None) -> str:
    """Format a score or a difference; a count without decimals, an undefined value as a dash."""
    if value is None or isinstance(value, int):
        return "–" if value is None else f"{value:,}"
    return "0" if abs(value) < _NO_MATCH else f"{value:.3f}"
