"""Days and times of image rows: what programs write for an unknown one is none, and those of several zones compare."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, time, timedelta

import polars as pl

from pacer.data.account import Account
from pacer.data.patients import TABLE
from pacer.data.values import mapped, parse_instant, parse_time

#: Column for the dates in a form with the year first, if a reader changes it; messages quote ``date``.
YEAR_FIRST = "year_first"
#: Days that stand for none unless another day is near, and digits of none.
_SENTINELS, _NEAR, _ZEROS = TABLE["no date"], timedelta(days=366), r"^[0\s:./T-]+$"
#: A time of more than this share of the studies stands for none at midnight, or if it is so often the next one's number.
_SHARED, _OFTEN = 0.05, 3
_ZONE = r"(?i)(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)$"
_SWAPPED = "beside dates of another form, so a spreadsheet may have swapped day and month; export the dates as text"


def read_moments(images: pl.DataFrame, role: str, account: Account) -> pl.DataFrame:
    """Add ``day`` and ``clock``, null if unknown, and ``bad date``, ``bad time`` and ``two times`` (the date has another
    time than the column ``time``).

    Args:
        images: with ``file``, ``row``, ``id``, ``study``, ``date``, ``time`` and maybe :data:`YEAR_FIRST`.
        role: the input under which the account counts what is changed or doubtful.
    """
    images = images.with_columns(
        written=pl.col(YEAR_FIRST if YEAR_FIRST in images.columns else "date").str.strip_chars()
    )
    instants = [None if text is None else parse_instant(text) for text in images["written"]]
    images = images.with_columns(
        day=pl.Series([instant and instant.day for instant in instants], dtype=pl.Date),
        date_clock=pl.Series([instant and instant.clock for instant in instants], dtype=pl.Time),
        clock=mapped("time", parse_time, pl.Time),
    )
    is_bad = pl.col("date").is_not_null() & pl.col("day").is_null() & ~pl.col("written").str.contains(_ZEROS)
    images = images.with_columns(
        is_bad.alias("bad date"), (pl.col("time").is_not_null() & pl.col("clock").is_null()).alias("bad time")
    )
    images = _without_sentinels(images, role, account)
    images = _without_swapped(images, role, account)
    for name in ("date_clock", "clock"):
        images = _without_shared(images, name, role, account)
    differs = (pl.col("clock") != pl.col("date_clock")) & (pl.col("date_clock") != time())
    images = images.with_columns(pl.coalesce("clock", "date_clock"), differs.fill_null(False).alias("two times"))
    return _in_one_zone(images, role, account)


def _without_sentinels(images: pl.DataFrame, role: str, account: Account) -> pl.DataFrame:
    others = images["day"].filter(~images["day"].is_in(_SENTINELS))
    far = [day for day in _SENTINELS if not ((others - day).abs() < _NEAR).any()]
    is_none = pl.col("day").is_in(far) | pl.col("written").str.contains(_ZEROS)
    days = images.filter(is_none).select(pl.coalesce(pl.col("day").cast(pl.String), "date"), "id")
    account.count_first("no_dates", role, days.iter_rows())
    return _without(images, is_none, "day", "date_clock")


def _without_swapped(images: pl.DataFrame, role: str, account: Account) -> pl.DataFrame:
    """List dates with the year first in a file that also has them in the stated form: so a spreadsheet writes those that
    it has read. If it has read all that it could, they are not used."""
    day, is_own = pl.col("day").dt.day(), pl.col("date") != pl.col("written")
    is_either = (day <= 12) & (day != pl.col("day").dt.month())
    doubted = ~is_own & is_either & is_own.any().over("file")
    swapped = doubted & ~((is_own & is_either) | (~is_own & (day > 12))).any().over("file")
    listed = images.with_columns(use=pl.when(swapped).then(pl.lit("not used")).otherwise(pl.lit("used"))).filter(
        doubted
    )
    account.count_first("two_forms", role, listed.select("use", "id").iter_rows())
    account.doubt(listed, pl.lit("date"), pl.lit(_SWAPPED), pl.col("date"))
    return _without(images, swapped, "day", "date_clock")


def _without_shared(images: pl.DataFrame, name: str, role: str, account: Account) -> pl.DataFrame:
    """Set times that stand for none to null; where all are midnight, they only say that the column has days."""
    studies = images.select(pl.struct("subject", "study").n_unique()).item()
    counts = Counter(images.drop_nulls(name).unique(["subject", "study", name])[name])
    midnights = counts.pop(time(), 0)
    (first, most), (_, next_most) = [*counts.most_common(2), (None, 0), (None, 0)][:2]
    shared = [first] * (most > _SHARED * studies and most >= _OFTEN * max(1, next_most))
    shared += [time()] * (midnights > max(1, _SHARED * studies) or not counts)
    where = pl.col(name).is_in(pl.Series(shared, dtype=pl.Time).implode())
    if counts:
        found = images.filter(where).select(pl.col(name).cast(pl.String), "id")
        account.count_first("no_times", role, found.iter_rows())
    return _without(images, where, name)


def _in_one_zone(images: pl.DataFrame, role: str, account: Account) -> pl.DataFrame:
    """Convert times to the most frequent zone; those without a zone are taken to be in it."""
    zone = pl.when(pl.col("date_clock").is_not_null()).then(pl.col("written").str.extract(_ZONE))
    moment, offset = pl.col("day").dt.combine(pl.col("clock")), pl.col("offset")
    images = images.with_columns(zone=zone).with_columns(offset=mapped("zone", _offset, pl.Duration))
    timed = images.filter(moment.is_not_null()).select("offset", "id")
    if timed["offset"].n_unique() > 1:
        hours = mapped("offset", lambda offset: f"UTC{offset / timedelta(hours=1):+g}").fill_null("no zone")
        account.count_first("zones", role, timed.select(hours, "id").iter_rows())
    moved = pl.coalesce(moment - offset + offset.mode().min(), moment)
    return images.with_columns(day=pl.coalesce(moved.dt.date(), "day"), clock=moved.dt.time())


def _offset(zone: str) -> timedelta | None:
    return datetime.fromisoformat(f"20000101T00{'Z' if zone.isalpha() else zone}").utcoffset()


def _without(images: pl.DataFrame, where: pl.Expr, *names: str) -> pl.DataFrame:
    return images.with_columns(pl.when(~where.fill_null(False)).then(name).alias(name) for name in names)
