"""Choice of the earlier study that supplies the previous report.

The prior of a study is the latest earlier study of the same subject that has a report, by date and time, never by the
order of ids. An unknown order is never guessed. A study without a date has no prior and cannot be one. Of two studies
on the same day, neither precedes the other if one has no time. Of equally near ones, the larger id is taken.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

import polars as pl

from pacer.data.schemas import PRIOR_SCHEMA

#: The columns that :func:`choose_priors` adds to each study.
CHOICE_SCHEMA = {name: PRIOR_SCHEMA[name] for name in PRIOR_SCHEMA if name != "study_id"}
_END = attrgetter("end")


class _Dated(NamedTuple):
    """A study between two moments: its time, or the limits of its day. Studies precede those that begin after their
    end."""

    row: int
    study: str
    day: date
    begin: datetime
    end: datetime
    is_timed: bool
    has_report: bool


def choose_priors(studies: pl.DataFrame) -> pl.DataFrame:
    """Choose the prior of every study of every subject.

    Args:
        studies: ``subject``, ``study`` (unique within it), ``day`` (Date, null), ``clock`` (Time, null) and
            ``has_report`` (findings or an impression, images or not), in any order.

    Returns:
        The same rows in the same order, with the columns of :data:`CHOICE_SCHEMA` added.
    """
    subjects: dict[str, list[_Dated]] = {}
    columns = studies.select("subject", "study", "day", "clock", "has_report")
    for row, (subject, study, day, clock, has_report) in enumerate(columns.iter_rows()):
        if day is not None:
            begin, end = (datetime.combine(day, limit if clock is None else clock) for limit in (time.min, time.max))
            dated = _Dated(row, study, day, begin, end, clock is not None, has_report)
            subjects.setdefault(subject, []).append(dated)
    chosen: list[tuple[str | None, float | None]] = [(None, None)] * studies.height
    for dated_studies in subjects.values():
        for study, choice in _choices(dated_studies):
            chosen[study.row] = choice
    return studies.hstack(pl.DataFrame(chosen, CHOICE_SCHEMA, orient="row"))


def _choices(studies: list[_Dated]) -> Iterator[tuple[_Dated, tuple[str, float]]]:
    """Yield each study of one subject that has a prior, and its values of :data:`CHOICE_SCHEMA`."""
    reports = sorted((study for study in studies if study.has_report), key=_END)
    latest_begin = list(accumulate((report.begin for report in reports), max))
    for study in studies:
        last = bisect_left(reports, study.begin, key=_END)
        if not last:
            continue
        # the earlier reports that none of them follows; all are of one day
        first = bisect_left(reports, latest_begin[last - 1], 0, last, key=_END)
        prior = max(reports[first:last], key=attrgetter("study"))
        both_timed = study.is_timed and prior.is_timed
        gap = study.begin - prior.begin if both_timed else study.day - prior.day
        yield study, (prior.study, gap / timedelta(days=1))
