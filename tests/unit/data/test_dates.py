"""Dates and times: a table of what is written, and of what it means."""

from datetime import date, time
from pathlib import Path

import pytest

from pacer.data.values import parse_instant, parse_time

#: Lines of kind (day, time), text and value; a value of - is refused.
CASES = [line.split("\t") for line in Path(__file__).with_name("instants.tsv").read_text("utf-8").splitlines() if line]


@pytest.mark.parametrize(("kind", "text", "value"), [case for case in CASES if not case[0].startswith("#")])
def test_what_is_written_means_one_thing_or_is_refused(kind: str, text: str, value: str) -> None:
    if kind == "time":
        assert parse_time(text) == (None if value == "-" else time.fromisoformat(value))
        return
    day, _, clock = value.partition(" ")
    expected = None if value == "-" else (date.fromisoformat(day), time.fromisoformat(clock) if clock else None)
    assert (instant := parse_instant(text)) == expected or (instant and instant[:2] == expected)
