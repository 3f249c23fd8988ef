"""Choice of the earlier study that supplies the previous report.

The prior of a study is the latest earlier study of the same subject that has a report, by date and time, never by the
order of ids. An unknown order is never guessed. A study without a date has no prior and cannot be one. Of two studies
on the same day, neither precedes the other if one has no time.
"""

from __future__ import annotations

import polars as pl

from pacer.data.schemas import PRIOR_SCHEMA
from pacer.data.values import mapped

#: The columns that :func:`choose_priors` adds to each study. ``rule`` is "date and time" if both have a time, or a time
#: decided between candidates of a day, else "date". ``unordered``: another study with a report is on the same day, and
#: one of the two has no time.
CHOICE_SCHEMA = {name: PRIOR_SCHEMA[name] for name in PRIOR_SCHEMA if name != "study_id"} | {"unordered": pl.Boolean()}
_DAY = ["subject", "day"]
_TIMED = pl.col("clock").is_not_null()
_MICROSECONDS = 86_400_000_000  # per day


def choose_priors(studies: pl.DataFrame) -> pl.DataFrame:
    """Choose the prior of every study of every subject.

    Args:
        studies: ``subject``, ``study`` (unique within it), ``day`` (Date, null), ``clock`` (Time, null) and
            ``has_report`` (findings or an impression, images or not), in any order.

    Returns:
        The same rows in the same order, with the columns of :data:`CHOICE_SCHEMA` added.
    """
    rows = studies.with_row_index("number")
    # a study without a time counts from midnight, so nothing on its day precedes it; its ``end`` is the end of the day
    midnight, last = pl.time(0), pl.time(23, 59, 59, 999_999)
    dated = rows.drop_nulls("day").with_columns(
        instant=pl.col("day").dt.combine(pl.col("clock").fill_null(midnight)), day_end=pl.col("day").dt.combine(last)
    )
    dated = dated.with_columns(end=pl.when(_TIMED).then("instant").otherwise("day_end"))
    empty, reports = dated.filter(~pl.col("has_report")), dated.filter("has_report")
    # Seen from a later day, the nearest studies of a day are those at its last instant and those without a time, which
    # may be later. Studies of that day with neither a report nor a time are not known to be nearer.
    newest = reports.with_columns(of_day=pl.len().over(_DAY))
    newest = newest.filter(~_TIMED | (pl.col("clock") == pl.col("clock").max().over(_DAY)))
    by_day = _counted(_nearest(newest, "day_end"), "prior_end", empty, "instant", exact=True)
    # On the same day, the nearest is the last one before the study; studies without a time do not count.
    timed = reports.filter(_TIMED).with_columns(of_day=pl.lit(0, pl.UInt32))
    by_instant = _counted(_nearest(timed, "instant"), "prior_end", empty, "end", exact=True)
    candidates = pl.concat([by_instant, by_day]).rename({"empty": "empty_before_prior"}).sort("at", maintain_order=True)

    dated = _counted(dated, "instant", empty, "end", exact=False).sort("instant")
    choices = dated.join_asof(
        candidates, left_on="instant", right_on="at", by="subject", allow_exact_matches=False, check_sortedness=False
    )
    of_day, untimed = (report.sum().over(_DAY) for report in (pl.col("has_report"), pl.col("has_report") & ~_TIMED))
    both_timed = _TIMED & pl.col("prior_is_timed")
    choices = choices.with_columns(between=(pl.col("instant") - pl.col("prior_instant")).dt.total_microseconds())
    # polars divides by a constant by multiplying by its inverse, which can differ in the last bit
    exact_days = mapped("between", lambda microseconds: microseconds / _MICROSECONDS, pl.Float64)
    whole_days = (pl.col("day") - pl.col("prior_day")).dt.total_days().cast(pl.Float64)
    by_time = both_timed | (pl.col("count") < pl.col("of_day"))
    choices = choices.select(
        "number",
        "prior_study_id",
        gap_days=pl.when(both_timed).then(exact_days).otherwise(whole_days),
        rule=pl.when(by_time).then(pl.lit("date and time")).when(~by_time).then(pl.lit("date")),
        tied=pl.col("count") > 1,
        passed_over=(pl.col("empty") - pl.col("empty_before_prior").fill_null(0)).cast(pl.Int32),
        unordered=pl.when(_TIMED).then(untimed).otherwise(of_day - pl.col("has_report")) > 0,
    )
    chosen = rows.join(choices, on="number", how="left", maintain_order="left")
    nothing = {"tied": False, "passed_over": 0, "unordered": False}
    return chosen.with_columns(pl.col(name).fill_null(value) for name, value in nothing.items()).drop("number")


def _nearest(candidates: pl.DataFrame, at: str) -> pl.DataFrame:
    """For each moment ``at`` from which candidates apply, return the one with the largest id, and their ``count``."""
    return candidates.sort("study").group_by("subject", pl.col(at).alias("at")).agg(
        pl.col("of_day").last(),
        prior_study_id=pl.col("study").last(),
        prior_day=pl.col("day").last(),
        prior_instant=pl.col("instant").last(),
        prior_end=pl.col("end").last(),
        prior_is_timed=_TIMED.last(),
        count=pl.len(),
    )  # fmt: skip


def _counted(points: pl.DataFrame, at: str, empty: pl.DataFrame, key: str, exact: bool) -> pl.DataFrame:
    """Add ``empty`` to points in time: the number of the subject's studies without a report whose ``key`` lies before
    (with ``exact``: before or at) the point."""
    marks = empty.select("subject", pl.col(key).alias("mark")).sort("mark")
    marks = marks.with_columns(empty=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("subject"))
    joined = points.sort(at).join_asof(
        marks, left_on=at, right_on="mark", by="subject", allow_exact_matches=exact, check_sortedness=False
    )
    return joined.drop("mark", strict=False).with_columns(pl.col("empty").fill_null(0))
