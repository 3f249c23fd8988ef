"""Which earlier study is the prior, rule by rule."""

from datetime import date, time, timedelta
from typing import Any

import polars as pl
import pytest

from pacer.data.priors import CHOICE_SCHEMA, choose_priors
from tests.support.cases import cases

SCHEMA = {"study": pl.String, "day": pl.Date, "clock": pl.Time, "has_report": pl.Boolean, "subject": pl.String}
NONE = dict.fromkeys(CHOICE_SCHEMA)


def study(text: str, subject: str = "p") -> tuple[Any, ...]:
    """A study as in the file: ``a 5 8 empty`` is of day 5 at 8 o'clock, without a report; ``a - 8`` has no day."""
    name, day, *more = text.split()
    when = None if day == "-" else date(2180, 1, 1) + timedelta(days=int(day))
    hours = [int(word) for word in more if word.isdigit()]
    return name, when, time(*hours) if hours else None, "empty" not in more, subject


def choices(studies: list[tuple[Any, ...]]) -> dict[str, dict[str, Any]]:
    frame = choose_priors(pl.DataFrame(studies, SCHEMA, orient="row"))
    return {row["study"]: {name: row[name] for name in CHOICE_SCHEMA} for row in frame.to_dicts()}


@cases(__file__)
def test_rules(kind: str, case: dict[str, Any]) -> None:
    studies = [study(text) for text in case["studies"].split(", ")]
    for ordered in (studies, studies[::-1]):
        chosen = choices(ordered)[studies[0][0]]
        gap, expected = chosen.pop("gap_days"), NONE | case["choice"]
        assert gap == pytest.approx(expected.pop("gap_days"))
        assert chosen == expected


def test_subjects_have_priors_of_their_own() -> None:
    assert choices([study("s 5"), study("a 3", "q")]) == {"s": NONE, "a": NONE}
