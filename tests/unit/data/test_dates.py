"""Dates and times that are read, and those that are refused."""

from __future__ import annotations

from datetime import date, datetime, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.data.readers.dates import DATE_FORMS, TIME_FORMS, day_of, parse_date, parse_time, time_of, time_within

DAY = date(2180, 5, 6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2180-05-06", (DAY, None)),
        ("2180/05/06", (DAY, None)),
        ("21800506", (DAY, None)),
        ("21800506.0", (DAY, None)),
        (" 2180-05-06 ", (DAY, None)),
        ("2180-05-06T08:30", (DAY, time(8, 30))),
        ("2180-05-06 08:30:27.5", (DAY, time(8, 30, 27, 500_000))),
        ("2180-05-06 00:00:00", (DAY, time())),
        ("2180-05-06T08:30:27.123456789", (DAY, time(8, 30, 27, 123_456))),
    ],
)
def test_dates_that_are_read(text: str, expected: tuple[date, time | None]) -> None:
    assert parse_date(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "05/06/2018",
        "6.5.2018",
        "2018-5-6",
        "2018-05/06",
        "2018-02-30",
        "2018-13-01",
        "20181301",
        "0000-01-01",
        "",
        "x",
        "2018-05-06Z",
        "2018-05-06T08:30:00Z",
        "2018-05-06T08:30:00+02:00",
        "2018-05-06T24:00",
        "2018-05-06.0",
        "2018-05-06T083000",
        "180506",
        "20180506.5",
        "٢٠١٨-٠٥-٠٦",
        "2018-05-06 8:30",
        "1525564800",
    ],
)
def test_dates_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="05/06/2018 could be two days") as caught:
        parse_date(text)
    assert str(caught.value) == DATE_FORMS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("08:50", time(8, 50)),
        ("08:50:27", time(8, 50, 27)),
        ("08:50:27.25", time(8, 50, 27, 250_000)),
        ("085027", time(8, 50, 27)),
        ("85027", time(8, 50, 27)),
        ("85027.0", time(8, 50, 27)),
        ("213014.531", time(21, 30, 14, 531_000)),
        ("1234.5", time(0, 12, 34, 500_000)),
        ("7.0", time(0, 0, 7)),
        ("0.0", time()),
        ("000000", time()),
        ("235959.9999999", time(23, 59, 59, 999_999)),
    ],
)
def test_times_that_are_read(text: str, expected: time) -> None:
    assert parse_time(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "0830",
        "830",
        "7",
        "8:30",
        "24:00",
        "12:60",
        "12:00:60",
        "240000",
        "126000.0",
        "1:00 PM",
        "-1",
        "1e5",
        "",
        "1234567",
        "12:00Z",
        "08:30.",
    ],
)
def test_times_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_time(text)
    assert str(caught.value) == TIME_FORMS


@given(st.datetimes())
def test_all_forms_of_an_instant_agree(instant: datetime) -> None:
    day, clock = instant.date(), instant.time()
    assert parse_date(instant.isoformat()) == parse_date(instant.isoformat(" ")) == (day, clock)
    assert {parse_date(form) for form in (day.isoformat(), day.isoformat().replace("-", ""))} == {(day, None)}
    number = f"{clock.hour * 10_000 + clock.minute * 100 + clock.second}.{clock.microsecond:06}"
    assert parse_time(number) == parse_time(clock.isoformat()) == clock


@given(st.text())
def test_anything_else_is_a_value_error(text: str) -> None:
    for parse in (parse_date, parse_time):
        try:
            parse(text)
        except ValueError as error:
            assert str(error) in (DATE_FORMS, TIME_FORMS)


def test_what_is_no_date_or_time_is_none() -> None:
    assert (day_of("2180-05-06 08:00"), time_within("2180-05-06 08:00")) == (DAY, time(8))
    assert (day_of("2180-05-06"), time_within("2180-05-06"), time_of("85027.0")) == (DAY, None, time(8, 50, 27))
    assert (day_of("05/06/2018"), time_within("bad"), time_of("0830")) == (None, None, None)
