"""Which earlier study supplies the previous report.

The prior of a study is the latest earlier study of the same subject that has a report: by date and time, never by the
order of ids. What cannot be ordered is not guessed at: a study without a date neither has nor is a prior, and neither
do two studies of one day precede each other when one of them has no time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Literal, NamedTuple

Rule = Literal["date", "date and time"]


class DatedStudy(NamedTuple):
    """One study of a subject. ``has_report``: it has findings or an impression, images or not."""

    study_id: str
    day: date | None
    clock: time | None
    has_report: bool


class Choice(NamedTuple):
    """The prior of a study.

    Attributes:
        study_id: None without one.
        gap_days: days between the studies; whole unless both have a time.
        rule: ``date and time`` when both have a time, or a time decided between candidates of one day; else ``date``.
        tied: another candidate was as near: at the same instant, or on the same day and one of the two has no time.
            The larger study id, as text, was taken.
        passed_over: nearer earlier studies without a report (without a prior: all earlier studies).
        unordered: a study with a report lies on the same day, before or after: one of the two has no time.
    """

    study_id: str | None = None
    gap_days: float | None = None
    rule: Rule | None = None
    tied: bool = False
    passed_over: int = 0
    unordered: bool = False


class _Latest(NamedTuple):
    """The candidate that every later study has as prior until a later one comes."""

    study: DatedStudy
    tied: bool
    by_time: bool


def choose_priors(studies: Sequence[DatedStudy]) -> list[Choice]:
    """The prior of each study of one subject, in the order of ``studies``, which does not matter."""
    choices = [Choice()] * len(studies)
    days: dict[date, list[int]] = defaultdict(list)
    for number, study in enumerate(studies):
        if study.day is not None:
            days[study.day].append(number)
    latest: _Latest | None = None
    without = 0  # studies without a report after `latest`
    for day in sorted(days):
        instants: dict[time, list[int]] = defaultdict(list)
        untimed: list[int] = []
        for number in days[day]:
            clock = studies[number].clock
            (untimed if clock is None else instants[clock]).append(number)
        reports = sum(studies[number].has_report for number in days[day])
        candidates = [studies[number] for number in untimed if studies[number].has_report]
        for number in untimed:
            unordered = reports > studies[number].has_report
            choices[number] = _choice(studies[number], latest, without, unordered)

        newest: list[DatedStudy] = []  # those at the last instant of the day that has a report
        for clock in sorted(instants):
            for number in instants[clock]:
                choices[number] = _choice(studies[number], latest, without, bool(candidates))
            here = [studies[number] for number in instants[clock] if studies[number].has_report]
            if here:
                newest, latest, without = here, _nearest(here, by_time=True), 0
            else:
                without += len(instants[clock])

        if candidates:
            # Studies without a time may be before or after the timed ones of this day: to later days all are as near.
            latest = _nearest(newest + candidates, by_time=reports > len(newest) + len(candidates))
            if latest.study.clock is None:
                without = 0
        elif newest:
            latest = _nearest(newest, by_time=reports > len(newest))
        else:
            without += len(untimed)
    return choices


def _nearest(candidates: list[DatedStudy], by_time: bool) -> _Latest:
    return _Latest(max(candidates, key=lambda study: study.study_id), len(candidates) > 1, by_time)


def _choice(study: DatedStudy, latest: _Latest | None, without: int, unordered: bool) -> Choice:
    if latest is None:
        return Choice(passed_over=without, unordered=unordered)
    prior = latest.study
    timed = study.clock is not None and prior.clock is not None
    gap = _instant(study, timed) - _instant(prior, timed)
    rule: Rule = "date and time" if timed or latest.by_time else "date"
    return Choice(prior.study_id, gap / timedelta(days=1), rule, latest.tied, without, unordered)


def _instant(study: DatedStudy, timed: bool) -> datetime:
    """When a dated study was made; midnight of its day unless ``timed``."""
    assert study.day is not None
    return datetime.combine(study.day, study.clock if timed and study.clock else time())
