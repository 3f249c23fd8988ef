"""Which earlier study supplies the previous report.

The prior of a study is the latest earlier study of the same subject that has a report: by date and time, never by the
order of ids. What cannot be ordered is not guessed at: a study without a date neither has nor is a prior, and neither
do two studies of one day precede each other when one of them has no time.
"""

from __future__ import annotations

import polars as pl

from pacer.data.values import mapped

#: What :func:`choose_priors` says of a study.
CHOICE_SCHEMA: dict[str, pl.DataType] = {
    "prior_study_id": pl.String(),  # null without one
    "gap_days": pl.Float64(),  # whole unless both have a time
    "rule": pl.String(),  # "date and time": both have a time, or a time decided between candidates of a day; "date"
    "tied": pl.Boolean(),  # another was as near: at that instant, or on that day and one has no time; the larger id won
    "passed_over": pl.Int32(),  # nearer earlier studies without a report (without a prior: all earlier studies)
    "unordered": pl.Boolean(),  # one with a report lies on the same day, and one of the two has no time
}
_DAY = ["subject", "day"]
_TIMED = pl.col("clock").is_not_null()
_MICROSECONDS = 86_400_000_000  # of a day


def choose_priors(studies: pl.DataFrame) -> pl.DataFrame:
    """The prior of every study of every subject.

    Args:
        studies: ``subject``, ``study`` (unique within it), ``day`` (Date, null), ``clock`` (Time, null) and
            ``has_report`` (findings or an impression, images or not), in any order.

    Returns:
        The same rows in the same order, and the columns of :data:`CHOICE_SCHEMA`.
    """
    rows = studies.with_row_index("number")
    # a study without a time is at midnight, before which nothing lies on its day; its ``end`` is that of the day
    midnight, last = pl.time(0), pl.time(23, 59, 59, 999_999)
    dated = rows.drop_nulls("day").with_columns(
        instant=pl.col("day").dt.combine(pl.col("clock").fill_null(midnight)), day_end=pl.col("day").dt.combine(last)
    )
    dated = dated.with_columns(end=pl.when(_TIMED).then("instant").otherwise("day_end"))
    empty, reports = dated.filter(~pl.col("has_report")), dated.filter("has_report")
    # To a later day the nearest of a day are those at its last instant, and those without a time: they may be later,
    # and studies of that day without a report and a time are not known to be nearer.
    newest = reports.with_columns(of_day=pl.len().over(_DAY))
    newest = newest.filter(~_TIMED | (pl.col("clock") == pl.col("clock").max().over(_DAY)))
    by_day = _counted(_nearest(newest, "day_end"), "prior_end", empty, "instant", exact=True)
    # To a study of the same day it is the one at the last instant before; one without a time is none.
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
    # polars divides by a constant as it multiplies by its inverse, which can differ in the last bit
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
    """The candidate with the largest id of those that count from the moment ``at``, and their ``count``."""
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
    """Points in time with ``empty``: how many of the subject's studies without a report lie before (``exact``: or at)
    them by their ``key``."""
    marks = empty.select("subject", pl.col(key).alias("mark")).sort("mark")
    marks = marks.with_columns(empty=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("subject"))
    joined = points.sort(at).join_asof(
        marks, left_on=at, right_on="mark", by="subject", allow_exact_matches=exact, check_sortedness=False
    )
    return joined.drop("mark", strict=False).with_columns(pl.col("empty").fill_null(0))
