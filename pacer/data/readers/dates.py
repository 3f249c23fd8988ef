"""Dates and times of studies, read strictly: a form that could mean two days is refused, not guessed."""

from __future__ import annotations

import re
from datetime import date, time
from functools import lru_cache

#: What is said of a date that cannot be read.
DATE_FORMS = (
    "expected YYYY-MM-DD, YYYY/MM/DD, YYYYMMDD or YYYY-MM-DD HH:MM[:SS], a day that exists, without a time zone "
    "(05/06/2018 could be two days)"
)
#: What is said of a time that cannot be read.
TIME_FORMS = (
    "expected HH:MM, HH:MM:SS[.f] or HHMMSS[.f], a time that exists "
    "(the zeros before HHMMSS may be missing, from four digits down only where a decimal point tells it from HHMM)"
)
# Whole numbers that were stored as decimals (20180506.0) are dates as well.
_DATE = re.compile(r"(\d{4})([-/]?)(\d{2})\2(\d{2})(?:\.0+)?", re.ASCII)
_DATETIME = re.compile(r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)", re.ASCII)
_CLOCK = re.compile(r"\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?", re.ASCII)
_DIGITS = re.compile(r"(\d{1,6})(\.\d+)?", re.ASCII)


def parse_date(text: str) -> tuple[date, time | None]:
    """The day that ``text`` names, and the time where it names one as well.

    Raises:
        ValueError: it is in no allowed form, or there is no such day or time; the message is :data:`DATE_FORMS`.
    """
    text = text.strip()
    try:
        if match := _DATETIME.fullmatch(text):
            return date.fromisoformat(match[1]), parse_time(match[2])
        match = _DATE.fullmatch(text)
        # A fraction belongs to a bare number only: 2018-05-06.0 is nothing.
        if match is None or (match[2] and "." in text):
            raise ValueError
        return date(int(match[1]), int(match[3]), int(match[4])), None
    except ValueError:
        raise ValueError(DATE_FORMS) from None


def parse_time(text: str) -> time:
    """The time of day that ``text`` names, to the microsecond.

    MIMIC-CXR writes times as numbers, so the zeros before them are lost: ``85027.0`` is 08:50:27. Up to four digits
    without a decimal point are refused, because ``0830`` could be 08:30 as well as 00:08:30.

    Raises:
        ValueError: it is in no allowed form, or there is no such time; the message is :data:`TIME_FORMS`.
    """
    text = text.strip()
    if (match := _DIGITS.fullmatch(text)) and (match[2] or len(match[1]) > 4):
        text = match[1].zfill(6) + (match[2] or "")
    elif not _CLOCK.fullmatch(text):
        raise ValueError(TIME_FORMS)
    try:
        if text.startswith("24"):  # later Pythons read it as midnight
            raise ValueError
        return time.fromisoformat(text)
    except ValueError:
        raise ValueError(TIME_FORMS) from None


def day_of(text: str) -> date | None:
    """The day of :func:`parse_date`; None where there is none to be read."""
    return _date(text)[0]


def time_within(text: str) -> time | None:
    """The time that a date names as well, see :func:`parse_date`; None without one."""
    return _date(text)[1]


def time_of(text: str) -> time | None:
    """The time of :func:`parse_time`; None where there is none to be read."""
    try:
        return parse_time(text)
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _date(text: str) -> tuple[date | None, time | None]:
    try:
        return parse_date(text)
    except ValueError:
        return None, None
