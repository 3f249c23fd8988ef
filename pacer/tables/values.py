"""Values of users' files: column functions, MIMIC's ids, safe display in messages, and strict
parsing of dates and times, where ambiguous forms are refused, not guessed."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

#: Subject and study in MIMIC-CXR's paths, also as Windows writes them.
MIMIC_PATH = r"(?:^|[/\\])p(\d+)[/\\]s(\d+)[/\\]"
#: Messages for a date and for a time that cannot be read.
DATE_FORMS = (
    "expected a valid date as YYYY-MM-DD, YYYY/MM/DD, YYYYMMDD or DD-MON-YYYY, with or without a "
    "time and zone, YYYYMMDDHHMMSS, or seconds or milliseconds since 1970 (not micro- or "
    "nanoseconds, nor spreadsheet days such as 43831); years need four digits. For forms such as "
    "05.06.2018 or 05/06/2018, set corpus.table.dates. If a number gives only the order of a "
    "patient's studies, map it to `order` in corpus.table.columns"
)
TIME_FORMS = (
    "expected a valid time as HH:MM or HH:MM:SS[.f], with or without AM or PM, or HHMMSS[.f] "
    "(830, 8.30 and 0.354167 are ambiguous)"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    "(January|February|March|April|May|June|July|August|September|October|November|December"
    "|[A-Za-z]{3}|Sept)"
)
#: A day in figures or with the month's name, and the rest of the text.
_DAY = re.compile(
    r"(?:(\d{4})(?:([-/])(\d{1,2})\2(\d{1,2})(?!\d)|(\d{2})(\d{2})(?:\.0+$)?)"
    rf"|(\d{{1,2}})[-/. ]?{_MONTH}[-/., ]{{0,2}}(\d{{4}})(?!\d)|{_MONTH}\.? (\d{{1,2}}),? "
    rf"(\d{{4}})(?!\d))(.*)",
    re.ASCII | re.IGNORECASE,
)
#: A time after a day, and its zone.
_AT = re.compile(
    r"(T|,? +|:|(?=\d{6}))(\S.*?)(?:(Z| ?(?:UTC|GMT))|( ?[+-]\d\d(?::?\d\d)?))?",
    re.ASCII | re.IGNORECASE,
)
_SINCE_1970 = re.compile(r"([1-9]\d{9})(\d{3})?(?:\.\d+)?", re.ASCII)
_CLOCK = re.compile(
    r"(?a)(?:0 days )?(\d{1,2})(:\d{2}(?::\d{2}(?:\.\d+)?)?)(?:\s?([AP])\.?M\.?)?", re.IGNORECASE
)
_DIGITS = re.compile(r"(?!\d\d?\.\d\d$|0\.\d{4})(\d{1,6})(\.\d+)?", re.ASCII)


def mapped(column: str, function: Callable[[Any], Any], kind: Any = pl.String) -> pl.Expr:
    """Apply a function to each value of a column; null stays null."""

    def each(values: pl.Series) -> pl.Series:
        return pl.Series(
            values.name, [None if value is None else function(value) for value in values], kind
        )

    return pl.col(column).map_batches(each, return_dtype=kind)


def bare_id(column: str) -> pl.Expr:
    """Remove MIMIC's letter from a subject or study id: ``s50414267`` becomes ``50414267``; other
    ids are unchanged."""
    return pl.col(column).str.replace(r"^[ps](\d+)$", "$1")


def shown(value: Any) -> str:
    """Describe a value for an error message: numbers are shown, the content of text is not."""
    if isinstance(value, str):
        return f"text of {len(value)} characters" if value.strip() else "blank text"
    if isinstance(value, int | float | None):
        return repr(value)
    if isinstance(value, list):
        return f"a list of length {len(value)}"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def quoted(value: str, longest: int = 40, words: int = 3) -> str:
    """Return an id, date, view, split, path or column name for a message; hide a long one, which
    may be report text."""
    if len(value) > longest or len(value.split()) > words:
        return f"text of {len(value)} characters"
    return value if value.isprintable() else ascii(value)[1:-1]


class Instant(NamedTuple):
    """A day, with a time and zone if they are stated."""

    day: date
    clock: time | None
    #: Offset of the zone from UTC.
    offset: timedelta | None = None


@lru_cache(maxsize=4096)
def parse_instant(text: str) -> Instant | None:
    """Parse a day, with or without a time; None if the form is unknown or ambiguous, or the day
    does not exist.

    A zoned time keeps the day and the time of its zone; times since 1970 are those of UTC.
    """
    text = text.strip()
    if since := _SINCE_1970.fullmatch(text):
        if not since[2] and int(text[8:10]) < 24 and parse_instant(text[:8]):
            return None  # it could also be YYYYMMDDHH
        moment = datetime.fromtimestamp(int(since[1]) + int(since[2] or 0) / 1000, UTC)
        return Instant(moment.date(), moment.time())
    match = _DAY.fullmatch(text)
    if match is None:
        return None
    year, _, *months_and_days, rest = match.groups()
    month, day = months_and_days[:2] if match[3] else months_and_days[2:4]
    if match[8] or match[10]:
        named, day, year = match.group(8, 7, 9) if match[8] else match.group(10, 11, 12)
        month = _MONTHS.index(named[:3].lower()) + 1 if named[:3].lower() in _MONTHS else 0
    at = _AT.fullmatch(rest)
    # without T or seconds, 08:30-09:00 could be a span
    is_span = at and at[4] and at[1] not in "Tt" and at[2].count(":") == 1
    clock = None if at is None or is_span else parse_time(at[2])
    zone = at and (at[4] or (at[3] and "+00"))
    if rest and clock is None:
        return None
    try:
        offset = datetime.fromisoformat(f"20000101T00{zone.strip()}").utcoffset() if zone else None
        return Instant(date(int(year), int(month), int(day)), clock, offset)
    except ValueError:
        return None


def parse_time(text: str) -> time | None:
    """Parse a time of day, to the microsecond; None for an unknown form or a time that does not
    exist.

    MIMIC-CXR writes times as numbers, so leading zeros are lost: ``85027.0`` is 08:50:27. Up to
    four digits without a decimal point are refused, because ``0830`` could be 08:30 or 00:08:30,
    and so are ``8.30`` and ``0.354167``, which spreadsheets write for 08:30. Zeros are midnight.
    """
    text = text.strip()
    if text and not text.strip("0"):
        return time()
    number = _DIGITS.fullmatch(text)
    if number and (number[2] or len(number[1]) > 4):
        digits = number[1].zfill(6)
        text = f"{digits[:2]}:{digits[2:4]}:{digits[4:]}{number[2] or ''}"
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour = int(match[1])
    if match[3]:
        if not 1 <= hour <= 12:
            return None
        hour %= 12
        if match[3] in "pP":
            hour += 12
    try:
        return time.fromisoformat(f"{hour:02}{match[2]}") if hour < 24 else None
    except ValueError:
        return None
