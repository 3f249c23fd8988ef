"""Dates and times that are read, and those that are refused."""

from __future__ import annotations

from datetime import date, time

import pytest

from pacer.data.values import parse_day, parse_time

DAY = date(2180, 5, 6)


@pytest.mark.parametrize(
    "text", ["2180-05-06", "2180/05/06", "2180-5-6", "2180/5/06", "21800506", "21800506.0", " 2180-05-06 "]
)
def test_dates_that_are_read(text: str) -> None:
    assert parse_day(text) == DAY


REFUSED_DATES = (
    "05/06/2018 6.5.2018 2018-5/6 2018-05/06 2018-02-30 2018-13-01 20181301 0000-01-01 x 2018-05-06Z 2018-05-06.0 "
    "2018-05-06T083000 180506 20180506.5 ٢٠١٨-٠٥-٠٦ 1525564800"
)
REFUSED_TIMES = (
    "0830 830 7 24:00 24:30 12:60 12:00:60 240000 126000.0 0:30PM 13:00PM 1PM 8:3 -1 1e5 1234567 12:00Z 08:30. "
    "08:30:00Z 08:30:00+02:00 8.30 08.30 0.35 0.354166667 .354166667 0.3541"
)


@pytest.mark.parametrize("text", ["", *REFUSED_DATES.split()])
def test_dates_that_are_refused(text: str) -> None:
    assert parse_day(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("08:50", time(8, 50)),
        ("08:50:27", time(8, 50, 27)),
        ("08:50:27.25", time(8, 50, 27, 250_000)),
        ("8:50", time(8, 50)),
        ("8:50 am", time(8, 50)),
        ("1:05 PM", time(13, 5)),
        ("12:05:30AM", time(0, 5, 30)),
        ("12:05 p.m.", time(12, 5)),
        ("085027", time(8, 50, 27)),
        ("85027", time(8, 50, 27)),
        ("85027.0", time(8, 50, 27)),
        ("213014.531", time(21, 30, 14, 531_000)),
        ("1234.5", time(0, 12, 34, 500_000)),
        ("7.0", time(0, 0, 7)),
        ("0.531", time(0, 0, 0, 531_000)),
        ("0.0", time()),
        ("000000", time()),
        ("235959.9999999", time(23, 59, 59, 999_999)),
    ],
)
def test_times_that_are_read(text: str, expected: time) -> None:
    assert parse_time(text) == expected


@pytest.mark.parametrize("text", ["", "13:00 PM", "1:00  PM", *REFUSED_TIMES.split()])
def test_times_that_are_refused(text: str) -> None:
    assert parse_time(text) is None
