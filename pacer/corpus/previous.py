"""Choice of the earlier examination that supplies the previous report.

The previous examination is the latest earlier one of the same subject whose report can be used. Its
order follows from date and time, never from ids, and is never guessed: an examination without a
date has no previous one and is none. Examinations of one instant are unordered, and so are those of
one day if either has no time, and those with identical texts, each within an hour of the one
before. If several are equally near, the one with the larger id is taken.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

import polars as pl

from pacer.core.schemas import PRIOR_SCHEMA
from pacer.corpus.account import Notes, Rows
from pacer.tables.values import mapped, quoted

#: The columns that :func:`choose_previous` adds to each examination.
CHOICE_SCHEMA = {name: PRIOR_SCHEMA[name] for name in PRIOR_SCHEMA if name != "study_id"}
#: Entries of a patient with the same text are one examination if at most this time lies between
#: them.
_EXAMINATION = timedelta(hours=1)
_END = attrgetter("end")


def with_previous(rows: Rows, sources: pl.DataFrame, role: str, notes: Notes) -> Rows:
    """Add the columns of :data:`CHOICE_SCHEMA`, ``prior_findings`` and ``prior_impression`` to
    examinations; flag those with identical texts within an hour.

    Args:
        rows: examinations with ``subject``, ``study``, ``day``, ``clock``, ``order`` and
            ``previous_report``, which takes precedence over the report of another examination.
        sources: the same examinations, and others whose reports can be used, with ``findings`` and
            ``impression``. If any has an ``order``, it replaces dates, and no gap is known.
        role: the input under which the notes count.
    """
    key = ["subject", "study"]
    has_order = sources["order"].count() > 0
    dated = sources.with_columns(
        has_report=pl.any_horizontal(pl.col("findings", "impression").is_not_null())
        & pl.col("may_precede")
    )
    if has_order:
        number = pl.col("order").rank("dense").cast(pl.Int32).cast(pl.Date)
        dated = dated.with_columns(day=number, clock=pl.lit(None, pl.Time))
    without_own = pl.col("previous_report").is_null()
    undated = dated.filter(without_own, pl.col("day").is_null()).height
    notes.count("priors", role, "undated", undated)
    copies = _copies(dated)
    notes.count_first("copies", role, copies.select(pl.lit("studies"), "id").iter_rows())
    reason = pl.format(
        "same examination as {} (same text within an hour)", mapped("first study", quoted)
    )
    rows = rows.flag(copies, pl.lit("study"), reason, pl.lit(None))
    # give copies the same time, so that none precedes another
    first_times = copies.select(
        *key, day=pl.col("first begin").dt.date(), clock=pl.col("first begin").dt.time()
    )
    choices = choose_previous(dated.update(first_times, on=key)).select(*key, *CHOICE_SCHEMA)
    if has_order:
        choices = choices.with_columns(gap_days=pl.lit(None, pl.Float64))
    reports = sources.select(
        "subject",
        prior_study_id="study",
        prior_findings="findings",
        prior_impression="impression",
    )
    studies = rows.used.join(choices, on=key, how="left", maintain_order="left")
    studies = studies.with_columns(
        pl.when(without_own).then(name).alias(name) for name in CHOICE_SCHEMA
    )
    studies = studies.join(
        reports, on=["subject", "prior_study_id"], how="left", maintain_order="left"
    )
    return rows._replace(
        used=studies.with_columns(prior_findings=pl.coalesce("previous_report", "prior_findings"))
    )


def _copies(studies: pl.DataFrame) -> pl.DataFrame:
    """Return the entries that have the text of an earlier entry of the same patient, each within an
    hour of the one before, with ``first begin`` and ``first study`` of the earliest of these."""
    begin = pl.col("day").dt.combine(pl.col("clock"))
    text = pl.concat_str("findings", "impression", separator=" ", ignore_nulls=True)
    timed = studies.with_columns(begin=begin, words=text).filter(
        begin.is_not_null() & pl.col("has_report")
    )
    timed = timed.sort("begin", maintain_order=True)
    follows = (pl.col("begin").diff() <= _EXAMINATION).fill_null(False)
    words = pl.col("words").str.to_lowercase().str.extract_all(r"[^\W_]+")
    timed = timed.with_columns(words.list.join(" ")).with_columns(
        run=(~follows).cum_sum().over("subject", "words")
    )
    first = pl.col("begin", "study").first().over("subject", "words", "run").name.prefix("first ")
    return timed.with_columns(first).filter(pl.col("study") != pl.col("first study"))


class _Dated(NamedTuple):
    """An examination with a date. It precedes the examinations that begin after its end."""

    #: Its place in the table of examinations.
    row: int
    study: str
    day: date
    #: Its time, or the beginning of its day if it has no time.
    begin: datetime
    #: Its time, or the end of its day.
    end: datetime
    is_timed: bool
    has_report: bool


def choose_previous(studies: pl.DataFrame) -> pl.DataFrame:
    """Choose the prior of every examination of every subject.

    Args:
        studies: the examinations, in any order: ``subject``, ``study`` (unique within it), ``day``
            (Date, null), ``clock`` (Time, null) and ``has_report`` (findings or an impression,
            images or not).

    Returns:
        The same rows in the same order, with the columns of :data:`CHOICE_SCHEMA` added.
    """
    subjects: dict[str, list[_Dated]] = {}
    columns = studies.select("subject", "study", "day", "clock", "has_report")
    for row, (subject, study, day, clock, has_report) in enumerate(columns.iter_rows()):
        if day is not None:
            is_timed = clock is not None
            begin = datetime.combine(day, clock if is_timed else time.min)
            end = datetime.combine(day, clock if is_timed else time.max)
            dated = _Dated(row, study, day, begin, end, is_timed, has_report)
            subjects.setdefault(subject, []).append(dated)
    chosen: list[tuple[str | None, float | None]] = [(None, None)] * studies.height
    for dated_studies in subjects.values():
        for study, choice in _choices(dated_studies):
            chosen[study.row] = choice
    return studies.hstack(pl.DataFrame(chosen, CHOICE_SCHEMA, orient="row"))


def _choices(studies: list[_Dated]) -> Iterator[tuple[_Dated, tuple[str, float]]]:
    """Yield each examination of one subject that has a prior, and its values of
    :data:`CHOICE_SCHEMA`."""
    reports = sorted((study for study in studies if study.has_report), key=_END)
    latest_begin = list(accumulate((report.begin for report in reports), max))
    for study in studies:
        last = bisect_left(reports, study.begin, key=_END)
        if not last:
            continue
        # the earlier reports that no other earlier report follows; all are of the same day
        first = bisect_left(reports, latest_begin[last - 1], 0, last, key=_END)
        prior = max(reports[first:last], key=attrgetter("study"))
        both_timed = study.is_timed and prior.is_timed
        gap = study.begin - prior.begin if both_timed else study.day - prior.day
        yield study, (prior.study, gap / timedelta(days=1))
