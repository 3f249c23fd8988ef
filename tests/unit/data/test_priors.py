"""Which earlier study is the prior, compared with a search through all pairs."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import NamedTuple

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.data.priors import CHOICE_SCHEMA, choose_priors

START = date(2180, 1, 1)
SCHEMA = {"study": pl.String, "day": pl.Date, "clock": pl.Time, "has_report": pl.Boolean}


class DatedStudy(NamedTuple):
    study_id: str
    day: date | None
    clock: time | None
    has_report: bool


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
    return DatedStudy(name, when, None if hour is None else time(hour), report)


def prior_of(name: str, *studies: DatedStudy) -> Choice:
    return dict(zip([entry.study_id for entry in studies], choices(list(studies)), strict=True))[name]


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
        ([study("s", 5, 18), study("a", 5, 12)], Choice("a", 0.25, "date and time")),
        # a time on one side only: whole days
        ([study("s", 5, 18), study("a", 4)], Choice("a", 1.0, "date")),
        ([study("s", 5), study("a", 4, 12)], Choice("a", 1.0, "date")),
        # the order on the prior's day needs the time although the study has none
        ([study("s", 5), study("z", 4, 8), study("a", 4, 12)], Choice("a", 1.0, "date and time")),
        # the same instant is not earlier
        ([study("s", 5, 8), study("a", 5, 8)], Choice()),
        ([study("s", 5, 8), study("a", 5, 8), study("b", 3)], Choice("b", 2.0, "date")),
        # the same day, order unknown
        ([study("s", 5), study("a", 5)], Choice(unordered=True)),
        ([study("s", 5, 8), study("a", 5)], Choice(unordered=True)),
        ([study("s", 5), study("a", 5, 8)], Choice(unordered=True)),
        ([study("s", 5, 8), study("a", 5, report=False)], Choice()),
        ([study("s", 5), study("a", 5), study("b", 3)], Choice("b", 2.0, "date", unordered=True)),
        # candidates at one instant: the larger id
        ([study("s", 5, 8), study("a", 4, 8), study("b", 4, 8)], Choice("b", 1.0, "date and time", tied=True)),
        ([study("s", 5), study("b", 4), study("a", 4)], Choice("b", 1.0, "date", tied=True)),
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
        # no date: neither has nor is a prior
        ([study("s", None, 8), study("a", 3)], Choice()),
        ([study("s", 5), study("a", None, 8)], Choice()),
    ],
)
def test_rules(studies: list[DatedStudy], expected: Choice) -> None:
    assert prior_of("s", *studies) == pytest.approx(expected)
    assert prior_of("s", *reversed(studies)) == pytest.approx(expected)


def earlier(one: DatedStudy, other: DatedStudy) -> bool:
    """``one`` is known to precede ``other``."""
    assert one.day and other.day
    if one.day != other.day:
        return one.day < other.day
    return one.clock is not None and other.clock is not None and one.clock < other.clock


def searched(study: DatedStudy, studies: list[DatedStudy]) -> Choice:
    """The same by looking at all studies, and at all pairs of candidates."""
    dated = [other for other in studies if other.day and other.study_id != study.study_id]
    if study.day is None:
        return Choice()
    same_day = [o for o in dated if o.day == study.day and o.has_report and None in (o.clock, study.clock)]
    before = [other for other in dated if earlier(other, study)]
    candidates = [other for other in before if other.has_report]
    if not candidates:
        return Choice(passed_over=len(before), unordered=bool(same_day))
    latest = [one for one in candidates if not any(earlier(one, other) for other in candidates)]
    prior = max(latest, key=lambda other: other.study_id)
    assert prior.day
    both = study.clock is not None and prior.clock is not None
    moments = [datetime.combine(s.day, (s.clock if both else None) or time()) for s in (study, prior) if s.day]
    beaten = any(other.day == prior.day and other not in latest for other in candidates)
    return Choice(
        prior.study_id,
        (moments[0] - moments[1]) / timedelta(days=1),
        "date and time" if both or beaten else "date",
        len(latest) > 1,
        sum(earlier(prior, other) for other in before if not other.has_report),
        bool(same_day),
    )


STUDIES = st.lists(
    st.builds(
        study,
        st.text("abc19", min_size=1, max_size=3),
        st.none() | st.integers(0, 4),
        st.none() | st.integers(0, 3),
        st.booleans(),
    ),
    max_size=9,
    unique_by=lambda entry: entry.study_id,
)


@given(STUDIES, STUDIES, st.randoms())
def test_same_as_a_search_through_all_pairs(studies: list[DatedStudy], others: list[DatedStudy], random) -> None:
    random.shuffle(studies)
    expected = [searched(entry, studies) for entry in studies] + [searched(entry, others) for entry in others]
    assert choices(studies, others) == expected
