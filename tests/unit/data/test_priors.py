"""Which earlier study is the prior, rule by rule."""

from __future__ import annotations

from datetime import date, time, timedelta
from typing import NamedTuple

import polars as pl
import pytest

from pacer.data.priors import CHOICE_SCHEMA, choose_priors

START = date(2180, 1, 1)
DatedStudy = tuple[str, date | None, time | None, bool]
SCHEMA = {"study": pl.String, "day": pl.Date, "clock": pl.Time, "has_report": pl.Boolean}


class Choice(NamedTuple):
    study_id: str | None = None
    gap_days: float | None = None
    rule: str | None = None
    tied: bool = False
    passed_over: int = 0
    unordered: bool = False


def choices(*subjects: list[DatedStudy]) -> list[Choice]:
    """What is chosen for the studies of several subjects at once."""
    frames = [pl.DataFrame(studies, SCHEMA, orient="row").with_columns(subject=pl.lit(f"p{number}"))
              for number, studies in enumerate(subjects)]  # fmt: skip
    return [Choice(*row) for row in choose_priors(pl.concat(frames)).select(list(CHOICE_SCHEMA)).iter_rows()]


def study(name: str, day: int | None, hour: int | None = None, report: bool = True) -> DatedStudy:
    when = None if day is None else START + timedelta(days=day)
    return name, when, None if hour is None else time(hour), report


def prior_of(name: str, *studies: DatedStudy) -> Choice:
    return dict(zip([entry[0] for entry in studies], choices(list(studies)), strict=True))[name]


@pytest.mark.parametrize(
    ("studies", "expected"),
    [
        # one study, and an only later one
        ([study("s", 5)], Choice()),
        ([study("s", 5), study("a", 6)], Choice()),
        # by date, never by id
        ([study("s", 5), study("z", 1), study("a", 3)], Choice("a", 2.0, "date")),
        # times on both sides: an exact gap
        ([study("s", 5, 18), study("a", 4, 12)], Choice("a", 1.25, "date and time")),
        # a time on one side only: whole days
        ([study("s", 5, 18), study("a", 4)], Choice("a", 1.0, "date")),
        ([study("s", 5), study("a", 4, 12)], Choice("a", 1.0, "date")),
        # the order on the prior's day needs the time although the study has none
        ([study("s", 5), study("z", 4, 8), study("a", 4, 12)], Choice("a", 1.0, "date and time")),
        # the same instant is not earlier
        ([study("s", 5, 8), study("a", 5, 8), study("b", 3)], Choice("b", 2.0, "date")),
        # the same day, order unknown
        ([study("s", 5), study("a", 5)], Choice(unordered=True)),
        ([study("s", 5, 8), study("a", 5)], Choice(unordered=True)),
        ([study("s", 5), study("a", 5, 8)], Choice(unordered=True)),
        ([study("s", 5, 8), study("a", 5, report=False)], Choice()),
        ([study("s", 5), study("a", 5), study("b", 3)], Choice("b", 2.0, "date", unordered=True)),
        ([study("s", 5, report=False)], Choice()),
        ([study("s", 5, report=False), study("a", 5, 8)], Choice(unordered=True)),
        # candidates at one instant: the larger id
        ([study("s", 5, 8), study("a", 4, 8), study("b", 4, 8)], Choice("b", 1.0, "date and time", tied=True)),
        # a candidate without a time may be before or after the timed ones of its day
        ([study("s", 5, 8), study("b", 4, 8), study("a", 4)], Choice("b", 1.0, "date and time", tied=True)),
        ([study("s", 5, 8), study("a", 4, 8), study("b", 4)], Choice("b", 1.0, "date", tied=True)),
        (
            [study("s", 5, 8), study("c", 4, 7), study("b", 4, 8), study("a", 4)],
            Choice("b", 1.0, "date and time", tied=True),
        ),
        # studies without a report are passed over
        (
            [study("s", 5), study("a", 1), study("b", 3, report=False), study("c", 4, report=False)],
            Choice("a", 4.0, "date", passed_over=2),
        ),
        (
            [study("s", 5, 9), study("a", 5, 7), study("b", 5, 8, report=False)],
            Choice("a", 2 / 24, "date and time", passed_over=1),
        ),
        ([study("s", 5), study("a", 3, 7), study("b", 3, 8, report=False)], Choice("a", 2.0, "date", passed_over=1)),
        ([study("s", 5), study("b", 3, report=False)], Choice(passed_over=1)),
        # only one that is known to be between, and never the study itself
        ([study("s", 5), study("a", 4, 8), study("b", 4, report=False)], Choice("a", 1.0, "date")),
        ([study("s", 5, 8, report=False), study("a", 4)], Choice("a", 1.0, "date")),
        (
            [study("s", 5, 8, report=False), study("a", 5, 7, report=False), study("b", 5, report=False)],
            Choice(passed_over=1),
        ),
        # no date: neither has nor is a prior
        ([study("s", None, 8), study("a", 3)], Choice()),
        ([study("s", 5), study("a", None, 8)], Choice()),
    ],
)
def test_rules(studies: list[DatedStudy], expected: Choice) -> None:
    assert prior_of("s", *studies) == pytest.approx(expected)
    assert prior_of("s", *reversed(studies)) == pytest.approx(expected)


def test_subjects_have_priors_of_their_own() -> None:
    assert choices([study("s", 5)], [study("a", 3)]) == [Choice(), Choice()]
