"""Days and times of image rows, and choice of the earlier study that supplies the previous report.

What programs write for an unknown day or time is none, and zoned times are put in order.

The prior of a study is the latest earlier study of the same subject that has a report, by date and
time, never by the order of ids. An unknown order is never guessed. A study without a date has no
prior and cannot be one. Of two studies on the same day, neither precedes the other if one has no
time. Of equally near ones, the larger id is taken.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

import polars as pl

from pacer.data.account import Account
from pacer.data.patients import TABLE
from pacer.data.schemas import PRIOR_SCHEMA
from pacer.data.values import mapped, parse_instant, parse_time

#: Column for the dates in a form with the year first, if a reader changes it; messages quote
#: ``date``.
YEAR_FIRST = "year_first"
#: Days that stand for none unless another date is near, and a date of zeros.
_SENTINELS, _NEAR, _ZEROS = TABLE["no date"], timedelta(days=366), r"^[0\s:./T-]+$"
#: Midnight stands for no time in more than this share of the studies, as does another time that is
#: so often the next.
_SHARED, _TIMES_THE_NEXT = 0.05, 3
#: Columns, and the field of an instant that each has.
_READ = {
    "day": ("day", pl.Date()),
    "date_clock": ("clock", pl.Time()),
    "offset": ("offset", pl.Duration()),
}
_SWAPPED = (
    "the file mixes date formats, so a spreadsheet may have swapped day and month; export "
    "the dates as text"
)
#: The columns that :func:`choose_priors` adds to each study.
CHOICE_SCHEMA = {name: PRIOR_SCHEMA[name] for name in PRIOR_SCHEMA if name != "study_id"}
_END = attrgetter("end")


def read_moments(images: pl.DataFrame, role: str, account: Account) -> pl.DataFrame:
    """Add ``day`` and ``clock``, null if unknown, and the faults ``bad date``, ``bad time`` and
    ``two times``; count under ``role`` what is changed or doubtful. The rows have ``date``,
    ``time`` and maybe :data:`YEAR_FIRST`."""
    written = (
        pl.col(YEAR_FIRST if YEAR_FIRST in images.columns else "date")
        .str.strip_chars()
        .alias("written")
    )
    images = images.with_columns(written, mapped("time", parse_time, pl.Time).alias("clock"))
    instants = [None if text is None else parse_instant(text) for text in images["written"]]
    read = {
        name: [getattr(instant, field, None) for instant in instants]
        for name, (field, _) in _READ.items()
    }
    images = images.hstack(pl.DataFrame(read, {name: kind for name, (_, kind) in _READ.items()}))
    is_zeros = pl.col("written").str.contains(_ZEROS)
    others = images["day"].filter(~images["day"].is_in(_SENTINELS))
    sentinels = [day for day in _SENTINELS if not ((others - day).abs() < _NEAR).any()]
    is_none = pl.col("day").is_in(sentinels) | is_zeros
    shown = pl.coalesce(pl.col("day").cast(pl.String), "date")
    account.count_first("no_dates", role, images.filter(is_none).select(shown, "id").iter_rows())
    images = images.with_columns(
        (pl.col("date").is_not_null() & pl.col("day").is_null() & ~is_zeros).alias("bad date"),
        (pl.col("time").is_not_null() & pl.col("clock").is_null()).alias("bad time"),
    )
    images = _without_swapped(_without(is_none, images, "day", "date_clock"), role, account)
    images = _without_shared(
        _without_shared(images, "date_clock", role, account), "clock", role, account
    )
    differs = (pl.col("clock") != pl.col("date_clock")) & (pl.col("date_clock") != time())
    images = images.with_columns(
        pl.coalesce("clock", "date_clock"), differs.fill_null(False).alias("two times")
    )
    return _in_one_zone(images, role, account)


def _without_swapped(images: pl.DataFrame, role: str, account: Account) -> pl.DataFrame:
    """List dates with the year first in a file that has others in the stated form, since
    spreadsheets write so what they have read. If that is all that can be read, they are not
    used."""
    day, is_own = pl.col("day").dt.day(), pl.col("date") != pl.col("written")
    is_either = (day <= 12) & (day != pl.col("day").dt.month())
    is_doubted = ~is_own & is_either & is_own.any().over("file")
    is_swapped = is_doubted & ~((is_own & is_either) | (~is_own & (day > 12))).any().over("file")
    use = pl.when(is_swapped).then(pl.lit("not used")).otherwise(pl.lit("used"))
    doubted = images.with_columns(use=use).filter(is_doubted)
    account.count_first("two_forms", role, doubted.select("use", "id").iter_rows())
    account.flag(doubted, pl.lit("date"), pl.lit(_SWAPPED), pl.col("date"))
    return _without(is_swapped, images, "day", "date_clock")


def _without_shared(images: pl.DataFrame, name: str, role: str, account: Account) -> pl.DataFrame:
    """Set times that stand for none to null; midnight in all rows only says that the column has
    days."""
    counts = Counter(images.drop_nulls(name).unique(["subject", "study", name])[name])
    many, midnights = _SHARED * images.n_unique(["subject", "study"]), counts.pop(time(), 0)
    (first, most), (_, next_most) = [*counts.most_common(2), (None, 0), (None, 0)][:2]
    shared = [first] * (most > many and most >= _TIMES_THE_NEXT * max(1, next_most))
    shared += [time()] * (midnights > max(1, many) or not counts)
    is_shared = pl.col(name).is_in(pl.Series(shared, dtype=pl.Time).implode())
    if counts:
        without_time = images.filter(is_shared).select(pl.col(name).cast(pl.String), "id")
        account.count_first("no_times", role, without_time.iter_rows())
    return _without(is_shared, images, name)


def _in_one_zone(images: pl.DataFrame, role: str, account: Account) -> pl.DataFrame:
    """Convert times to the most frequent zone; those without a zone are taken to be in it."""
    moment, offset = pl.col("day").dt.combine(pl.col("clock")), pl.col("offset")
    timed = images.filter(moment.is_not_null()).select("offset", "id")
    if timed["offset"].n_unique() > 1:
        zones = mapped("offset", lambda offset: f"UTC{offset / timedelta(hours=1):+g}").fill_null(
            "no zone"
        )
        topic = "no_zone" if timed["offset"].null_count() else "zones"
        account.count_first(topic, role, timed.select(zones, "id").iter_rows())
    moment = pl.coalesce(moment - offset + offset.drop_nulls().mode().min(), moment)
    return images.with_columns(day=pl.coalesce(moment.dt.date(), "day"), clock=moment.dt.time())


def _without(where: pl.Expr, images: pl.DataFrame, *names: str) -> pl.DataFrame:
    return images.with_columns(
        pl.when(~where.fill_null(False)).then(name).alias(name) for name in names
    )


class _Dated(NamedTuple):
    """A study between two moments: its time, or the limits of its day. Studies precede those that
    begin after their end."""

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
        studies: ``subject``, ``study`` (unique within it), ``day`` (Date, null), ``clock`` (Time,
            null) and ``has_report`` (findings or an impression, images or not), in any order.

    Returns:
        The same rows in the same order, with the columns of :data:`CHOICE_SCHEMA` added.
    """
    subjects: dict[str, list[_Dated]] = {}
    columns = studies.select("subject", "study", "day", "clock", "has_report")
    for row, (subject, study, day, clock, has_report) in enumerate(columns.iter_rows()):
        if day is not None:
            begin, end = (
                datetime.combine(day, limit if clock is None else clock)
                for limit in (time.min, time.max)
            )
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
