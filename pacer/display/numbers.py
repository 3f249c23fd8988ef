"""Formatting of numbers in audits, tables and messages, and the lines of an audit."""

import math
from collections.abc import Mapping
from typing import NamedTuple, Protocol

#: Note below a table on the numbers in brackets of :func:`score_cell`.
IN_BRACKETS = "in brackets: the number of findings or records that count"


class Check(NamedTuple):
    """A line of an audit."""

    #: The subject of the check.
    name: str
    #: The result.
    detail: str
    #: Whether the result is as it should be.
    good: bool = True


def number(value: float | int | None, decimals: int = 3) -> str:
    """Format a score as ``0.123``, or with two significant digits, such as ``0.0012`` or
    ``1.2e-07``, if it is so small that it would lose digits; a count as ``1,234``; and an undefined
    value as an en dash."""
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    rounded = f"{value:.{decimals}f}"
    if (
        not decimals or abs(value) < 1e-12 or abs(value) >= 0.01
    ):  # 1e-16: BLEU where no word matches
        return rounded
    exact = (
        f"{value:.1e}"
        if abs(value) < 1e-4
        else f"{value:.{1 - math.floor(math.log10(abs(value)))}f}"
    )
    return exact if float(exact) != float(rounded) else rounded


def percent(part: float, whole: float) -> str:
    """Format ``part`` of ``whole`` as a percentage; a dash if ``whole`` is 0."""
    return f"{100 * part / whole:.1f}%" if whole else "–"


def share(part: int, whole: int) -> str:
    """Format ``part`` of ``whole`` as a percentage of a number."""
    return f"{percent(part, whole)} of {number(whole)}"


def counted(counts: Mapping[str, int], form: str = "{} {}") -> str:
    """Return each count that is not zero with its name."""
    return ", ".join(form.format(number(count), name) for name, count in counts.items() if count)


def score_cell(value: float | int | None, decimals: int = 3, count: int | None = None) -> str:
    """Format a score, and in brackets the number of findings or records that it counts. None (there
    is no denominator) is shown as undefined, not as 0."""
    cell = "undefined" if value is None else number(value, decimals)
    return cell if count is None else f"{cell} ({count:,})"


def signed(value: float | None, decimals: int = 3) -> str:
    """Format a difference as :func:`number` does, with its sign."""
    if value is None:
        return "–"
    sign = "−" if value < 0 else "+"
    return f"{sign}{number(abs(float(value)), decimals)}"


class Change(Protocol):
    """A difference with its interval."""

    @property
    def difference(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def change_cells(change: Change, p: float | None, decimals: int = 3) -> tuple[str, str, str]:
    """Return the cells for a difference, its interval and ``p``, its own p value or a corrected
    one."""
    ends = (change.low, change.high)
    interval = "–" if None in ends else "…".join(signed(end, decimals) for end in ends)
    return signed(change.difference, decimals), interval, p_value(p)


def p_value(p: float | None) -> str:
    """Format a p value with three decimals, never as 0."""
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
