"""Dates and times of studies, read strictly: a form that could mean two days is refused, not guessed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, time

import polars as pl

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


def read_days(column: pl.Series) -> pl.DataFrame:
    """Days of a column of dates, of dates with times, or of text.

    Returns:
        columns ``day`` (Date), ``clock`` (Time, the time that a date came with) and ``unread`` (Boolean: a value that
        :func:`parse_date` refuses; ``day`` is null there).
    """
    column = _known(column)
    if column.dtype == pl.Date:
        day, clock = column, pl.Series([None], dtype=pl.Time).new_from_index(0, len(column))
    elif isinstance(column.dtype, pl.Datetime):
        wall = _wall_clock(column)
        day, clock = wall.dt.date(), wall.dt.time()
    else:
        day, clock = _parsed(column, parse_date, pl.Date(), pl.Time())
    return pl.DataFrame({"day": day, "clock": clock, "unread": column.is_not_null() & day.is_null()})


def read_times(column: pl.Series) -> pl.DataFrame:
    """Times of day of a column of times, of dates with times, or of text.

    Returns:
        columns ``clock`` (Time) and ``unread`` (Boolean: a value that :func:`parse_time` refuses).
    """
    column = _known(column)
    if column.dtype == pl.Time:
        clock = column
    elif isinstance(column.dtype, pl.Datetime):
        clock = _wall_clock(column).dt.time()
    else:
        (clock,) = _parsed(column, lambda text: (parse_time(text),), pl.Time())
    return pl.DataFrame({"clock": clock, "unread": column.is_not_null() & clock.is_null()})


def as_text(column: pl.Series) -> pl.Series:
    """A column as text. Numbers that are not there (NaN) become null."""
    return _known(column).cast(pl.String)


def _known(column: pl.Series) -> pl.Series:
    return column.fill_nan(None) if column.dtype.is_float() else column


def _wall_clock(column: pl.Series) -> pl.Series:
    """Instants that know their time zone are compared in UTC: order and gaps stay right when the clocks change."""
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
        return column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return column


def _parsed(column: pl.Series, parse: Callable[[str], tuple], *kinds: pl.DataType) -> list[pl.Series]:
    """A column for each value that ``parse`` gives, null where a text cannot be read; each text is read once."""
    column = as_text(column)
    texts = column.unique().drop_nulls()
    found = []
    for text in texts:
        try:
            found.append(parse(text))
        except ValueError:
            found.append((None,) * len(kinds))
    new = pl.DataFrame(found, [(str(number), kind) for number, kind in enumerate(kinds)], orient="row")
    return [column.replace_strict(texts, values, default=None, return_dtype=values.dtype) for values in new]
