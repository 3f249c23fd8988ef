"""Days and times of image rows, and choice of the earlier examination that supplies the previous
report.

Values that programs write for an unknown day or time are set to null, and zoned times are put in
order.

The prior of an examination is the latest earlier examination of the same subject that has a report,
by date and time, never by the order of ids. An unknown order is never guessed. An examination
without a date has no prior and cannot be one. Of two examinations on the same day, neither precedes
the other if one has no time. If several are equally near, the one with the larger id is taken.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

import polars as pl

from pacer.core.schemas import PRIOR_SCHEMA
from pacer.corpus.account import Notes, Rows
from pacer.corpus.patients import TABLE
from pacer.tables.values import mapped, parse_instant, parse_time

#: Column for the dates in a form with the year first, if a reader changes it; messages quote
#: ``date``.
YEAR_FIRST = "year_first"
#: Days that programs write for an unknown date. They count as dates if another date is near.
_PLACEHOLDER_DAYS = TABLE["no date"]
_NEAR = timedelta(days=366)
#: A date of zeros.
_ZEROS = r"^[0\s:./T-]+$"
#: Treat midnight, or one other time, as missing if it occurs in more than this share of
#: examinations.
_DEFAULT_SHARE = 0.05
#: The other time must also be this many times as frequent as the next.
_DEFAULT_RATIO = 3
#: Columns for the fields of an instant.
_INSTANT_SCHEMA = {"day": pl.Date(), "date_clock": pl.Time(), "offset": pl.Duration()}
_SWAPPED = (
    "the file mixes date formats, so a spreadsheet may have swapped day and month; export "
    "the dates as text"
)
#: The columns that :func:`choose_priors` adds to each examination.
CHOICE_SCHEMA = {name: PRIOR_SCHEMA[name] for name in PRIOR_SCHEMA if name != "study_id"}
_END = attrgetter("end")


def read_moments(images: Rows, role: str, notes: Notes) -> Rows:
    """Add ``day`` and ``clock``, null if unknown, and the faults ``bad date``, ``bad time`` and
    ``two times``; count under ``role`` what is changed or doubtful. The rows have ``date``,
    ``time`` and maybe :data:`YEAR_FIRST`."""
    written = pl.col(YEAR_FIRST if YEAR_FIRST in images.used.columns else "date")
    table = images.used.with_columns(
        written.str.strip_chars().alias("written"),
        mapped("time", parse_time, pl.Time).alias("clock"),
    )
    instants = [None if text is None else parse_instant(text) for text in table["written"]]
    parsed = [(None, None, None) if instant is None else instant for instant in instants]
    table = table.hstack(pl.DataFrame(parsed, _INSTANT_SCHEMA, orient="row"))
    is_zeros = pl.col("written").str.contains(_ZEROS)
    others = table["day"].filter(~table["day"].is_in(_PLACEHOLDER_DAYS))
    placeholders = [day for day in _PLACEHOLDER_DAYS if not ((others - day).abs() < _NEAR).any()]
    is_placeholder = pl.col("day").is_in(placeholders) | is_zeros
    day_or_text = pl.coalesce(pl.col("day").cast(pl.String), "date")
    dateless = table.filter(is_placeholder).select(day_or_text, "id")
    notes.count_first("no_dates", role, dateless.iter_rows())
    table = table.with_columns(
        (pl.col("date").is_not_null() & pl.col("day").is_null() & ~is_zeros).alias("bad date"),
        (pl.col("time").is_not_null() & pl.col("clock").is_null()).alias("bad time"),
    )
    table = _null_where(is_placeholder, table, "day", "date_clock")
    images = _drop_swapped_dates(images._replace(used=table), role, notes)
    table = _drop_default_times(images.used, "date_clock", role, notes)
    table = _drop_default_times(table, "clock", role, notes)
    differs = (pl.col("clock") != pl.col("date_clock")) & (pl.col("date_clock") != time())
    table = table.with_columns(
        pl.coalesce("clock", "date_clock"), differs.fill_null(False).alias("two times")
    )
    return images._replace(used=_in_one_zone(table, role, notes))


def _drop_swapped_dates(images: Rows, role: str, notes: Notes) -> Rows:
    """List dates with the year first in a file whose other dates have the stated form: a
    spreadsheet may have swapped day and month when it converted them. They are not used if the
    dates with the year first are exactly those in which day and month can be swapped."""
    day = pl.col("day").dt.day()
    is_own = pl.col("date") != pl.col("written")
    is_either = (day <= 12) & (day != pl.col("day").dt.month())
    is_doubtful = ~is_own & is_either & is_own.any().over("file")
    is_swapped = is_doubtful & ~((is_own & is_either) | (~is_own & (day > 12))).any().over("file")
    use = pl.when(is_swapped).then(pl.lit("not used")).otherwise(pl.lit("used"))
    doubtful = images.used.with_columns(use=use).filter(is_doubtful)
    notes.count_first("two_forms", role, doubtful.select("use", "id").iter_rows())
    images = images.flag(doubtful, pl.lit("date"), pl.lit(_SWAPPED), pl.col("date"))
    return images._replace(used=_null_where(is_swapped, images.used, "day", "date_clock"))


def _drop_default_times(images: pl.DataFrame, name: str, role: str, notes: Notes) -> pl.DataFrame:
    """Set times that programs write for an unknown time to null. If all rows have midnight, the
    column has only days, which is not noted."""
    counts = Counter(images.drop_nulls(name).unique(["subject", "study", name])[name])
    limit = _DEFAULT_SHARE * images.n_unique(["subject", "study"])
    num_midnights = counts.pop(time(), 0)
    defaults: list[time] = []
    if counts:
        (first, most), *others = counts.most_common(2)
        next_most = others[0][1] if others else 1
        if most > limit and most >= _DEFAULT_RATIO * next_most:
            defaults.append(first)
    if num_midnights > max(1, limit) or not counts:
        defaults.append(time())
    is_default = pl.col(name).is_in(pl.Series(defaults, dtype=pl.Time).implode())
    if counts:
        without_time = images.filter(is_default).select(pl.col(name).cast(pl.String), "id")
        notes.count_first("no_times", role, without_time.iter_rows())
    return _null_where(is_default, images, name)


def _in_one_zone(images: pl.DataFrame, role: str, notes: Notes) -> pl.DataFrame:
    """Convert times to the most frequent zone; those without a zone are taken to be in it."""
    moment = pl.col("day").dt.combine(pl.col("clock"))
    offset = pl.col("offset")
    timed = images.filter(moment.is_not_null()).select("offset", "id")
    if timed["offset"].n_unique() > 1:
        zones = mapped("offset", lambda offset: f"UTC{offset / timedelta(hours=1):+g}").fill_null(
            "no zone"
        )
        topic = "no_zone" if timed["offset"].null_count() else "zones"
        notes.count_first(topic, role, timed.select(zones, "id").iter_rows())
    moment = pl.coalesce(moment - offset + offset.drop_nulls().mode().min(), moment)
    return images.with_columns(day=pl.coalesce(moment.dt.date(), "day"), clock=moment.dt.time())


def _null_where(where: pl.Expr, images: pl.DataFrame, *names: str) -> pl.DataFrame:
    return images.with_columns(
        pl.when(~where.fill_null(False)).then(name).alias(name) for name in names
    )


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


def choose_priors(studies: pl.DataFrame) -> pl.DataFrame:
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
