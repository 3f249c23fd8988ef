"""Values of users' files: column functions, MIMIC's ids, safe display in messages, and strict parsing of dates and
times, where ambiguous forms are refused, not guessed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, time
from typing import Any

import polars as pl

#: Subject and study in MIMIC-CXR's paths, also as Windows writes them.
MIMIC_PATH = r"(?:^|[/\\])p(\d+)[/\\]s(\d+)[/\\]"
#: Message for a date that cannot be read.
DATE_FORMS = (
    "expected YYYY-MM-DD, YYYY/MM/DD, YYYYMMDD or YYYY-MM-DD HH:MM[:SS], a day that exists, without a time zone "
    "(a year has four digits; 05/06/2018 could be two days: of a table, corpus.table.dates says which; "
    "a number that only orders a patient's studies is order in corpus.table.columns)"
)
#: Message for a time that cannot be read.
TIME_FORMS = (
    "expected HH:MM, HH:MM:SS[.f] (also with AM or PM) or HHMMSS[.f], a time that exists "
    "(the zeros before HHMMSS may be missing, from four digits down only where a decimal point tells it from HHMM; "
    "8.30 could be 08:30, and 0.354167 a fraction of a day)"
)
_DAY = re.compile(r"(\d{4})(?:([-/])(\d{1,2})\2(\d{1,2})|(\d{2})(\d{2})(?:\.0+)?)", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2})(:\d{2}(?::\d{2}(?:\.\d+)?)?)(?:\s?([AP])\.?M\.?)?", re.ASCII | re.IGNORECASE)
_DIGITS = re.compile(r"(?!\d\d?\.\d\d$|0\.\d{4})(\d{1,6})(\.\d+)?", re.ASCII)


def mapped(column: str, function: Callable[[Any], Any], kind: Any = pl.String) -> pl.Expr:
    """Apply a function to each value of a column; null stays null."""

    def each(values: pl.Series) -> pl.Series:
        return pl.Series(values.name, [None if value is None else function(value) for value in values], kind)

    return pl.col(column).map_batches(each, return_dtype=kind)


def bare_id(column: str) -> pl.Expr:
    """Remove MIMIC's letter from a subject or study id: ``s50414267`` becomes ``50414267``; other ids are unchanged."""
    return pl.col(column).str.replace(r"^[ps](\d+)$", "$1")


def shown(value: Any) -> str:
    """Describe a value for an error message: numbers are shown, the content of text is not."""
    if isinstance(value, str):
        return "blank text" if not value.strip() else f"text of {len(value)} characters"
    if isinstance(value, bool | float | None):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if abs(value) < 10**20 else "a number of more than 20 digits"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def quoted(value: str, longest: int = 40, words: int = 3) -> str:
    """Return an id, date, view, split, path or column name for a message; hide a long one, which may be report text."""
    if len(value) > longest or len(value.split()) > words:
        return f"text of {len(value)} characters"
    return value if value.isprintable() else ascii(value)[1:-1]


def parse_day(text: str) -> date | None:
    """Parse a day; None for an unknown form or a day that does not exist. Whole numbers that were stored as decimals
    (``20180506.0``) are accepted."""
    match = _DAY.fullmatch(text.strip())
    try:
        return match and date(int(match[1]), int(match[3] or match[5]), int(match[4] or match[6]))
    except ValueError:
        return None


def parse_time(text: str) -> time | None:
    """Parse a time of day, to the microsecond; None for an unknown form or a time that does not exist.

    MIMIC-CXR writes times as numbers, so leading zeros are lost: ``85027.0`` is 08:50:27. Up to four digits without a
    decimal point are refused, because ``0830`` could be 08:30 or 00:08:30, and so are ``8.30`` and ``0.354167``, which
    spreadsheets write for 08:30.
    """
    text = text.strip()
    if (match := _DIGITS.fullmatch(text)) and (match[2] or len(match[1]) > 4):
        digits = match[1].zfill(6)
        text = f"{digits[:2]}:{digits[2:4]}:{digits[4:]}{match[2] or ''}"
    match = _CLOCK.fullmatch(text)
    hour = int(match[1]) if match else 24
    if match and match[3]:
        hour = hour % 12 + 12 * (match[3] in "pP") if 1 <= hour <= 12 else 24
    try:
        return time.fromisoformat(f"{hour:02}{match[2]}") if match and hour < 24 else None
    except ValueError:
        return None
