"""Which earlier study supplies the previous report.

The prior of a study is the latest earlier study of the same subject that has a report: by date and time, never by the
order of ids. What cannot be ordered is not guessed at: a study without a date neither has nor is a prior, and neither
do two studies of one day precede each other when one of them has no time.
"""

from __future__ import annotations

import polars as pl

from pacer.data.studies import mapped

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
_INSTANT = [*_DAY, "clock"]
_MICROSECONDS = 86_400_000_000  # of a day


def choose_priors(studies: pl.DataFrame) -> pl.DataFrame:
    """The prior of every study of every subject.

    Args:
        studies: ``subject``, ``study`` (unique within it), ``day`` (Date, null), ``clock`` (Time, null) and
            ``has_report`` (findings or an impression, images or not), in any order.

    Returns:
        The same rows in the same order, and the columns of :data:`CHOICE_SCHEMA`.
    """
    given = studies.with_row_index("_given")
    dated = _with_counts(given.drop_nulls("day"))
    # To a later day the nearest of a day are those at its last instant, and those without a time: they may be later.
    candidates = dated.filter("has_report")
    newest = candidates.filter(~pl.col("timed") | (pl.col("clock") == pl.col("clock").max().over(_DAY)))
    by_day = _nearest(newest, _DAY, pl.col("not_after")).with_columns(by_time=pl.col("count") < pl.col("reports"))
    by_instant = _nearest(candidates.filter("timed"), _INSTANT, pl.col("empty_before") + pl.col("empty_until"))
    by_instant = by_instant.with_columns(by_time=pl.lit(True), instant=_instant("day", "clock"))
    earlier_day = _latest_before(dated, by_day.with_columns(prior_day="day"), "day")
    same_day = _latest_before(dated, by_instant.rename({"day": "prior_day"}), "instant").filter(
        pl.col("prior_day") == pl.col("day")
    )
    priors = pl.concat([same_day, earlier_day]).unique("_given", keep="first")
    both_timed = pl.col("timed") & pl.col("prior_clock").is_not_null()
    between = (pl.col("instant") - _instant("prior_day", "prior_clock")).dt.total_microseconds()
    priors = priors.with_columns(between=between)
    # polars divides by a constant as it multiplies by its inverse, which can differ in the last bit
    exact_days = mapped("between", lambda microseconds: microseconds / _MICROSECONDS, pl.Float64)
    days = (pl.col("day") - pl.col("prior_day")).dt.total_days().cast(pl.Float64)
    priors = priors.select(
        "_given",
        "prior_study_id",
        gap_days=pl.when(both_timed).then(exact_days).otherwise(days),
        rule=pl.when(both_timed | pl.col("by_time")).then(pl.lit("date and time")).otherwise(pl.lit("date")),
        tied=pl.col("count") > 1,
        empty_until_prior="empty_until_prior",
    )
    same_day_reports = pl.when("timed").then("untimed_reports").otherwise(pl.col("reports") - pl.col("has_report"))
    known = dated.select("_given", "empty_earlier", unordered=same_day_reports > 0)
    chosen = given.join(known, on="_given", how="left").join(priors, on="_given", how="left").sort("_given")
    return chosen.with_columns(
        passed_over=(pl.col("empty_earlier") - pl.col("empty_until_prior").fill_null(0)).fill_null(0).cast(pl.Int32),
        tied=pl.col("tied").fill_null(False),
        unordered=pl.col("unordered").fill_null(False),
    ).select(*studies.columns, *CHOICE_SCHEMA)


def _with_counts(dated: pl.DataFrame) -> pl.DataFrame:
    """The studies that have a day, with counts of their day, and of studies without a report before it.

    ``empty_earlier``: studies without a report that are earlier; ``not_after``: those that are not after the study, in
    the eyes of a later day.
    """
    dated = dated.with_columns(
        empty=~pl.col("has_report"), timed=pl.col("clock").is_not_null(), instant=_instant("day", "clock")
    )
    days = dated.group_by(_DAY).agg(
        day_empty=pl.col("empty").sum(),
        untimed_empty=(pl.col("empty") & ~pl.col("timed")).sum(),
        reports=pl.col("has_report").sum(),
        untimed_reports=(pl.col("has_report") & ~pl.col("timed")).sum(),
    )
    days = days.sort(_DAY).with_columns(
        empty_before=pl.col("day_empty").cum_sum().over("subject") - pl.col("day_empty")
    )
    instants = dated.filter("timed").group_by(_INSTANT).agg(empty_here=pl.col("empty").sum()).sort(_INSTANT)
    instants = instants.with_columns(empty_until=pl.col("empty_here").cum_sum().over(_DAY))
    dated = dated.join(days, on=_DAY, how="left").join(instants, on=_INSTANT, how="left")
    before = pl.col("empty_before").cast(pl.Int64)
    until = pl.when("timed").then(pl.col("untimed_empty") + pl.col("empty_until")).otherwise("day_empty")
    return dated.with_columns(
        empty_earlier=before + (pl.col("empty_until") - pl.col("empty_here")).fill_null(0), not_after=before + until
    )


def _nearest(candidates: pl.DataFrame, group: list[str], empty_until: pl.Expr) -> pl.DataFrame:
    """The candidate of each group with the largest id, and how many there are."""
    largest = candidates.with_columns(empty_until_prior=empty_until.cast(pl.Int64)).sort("study").group_by(group)
    return largest.agg(
        pl.col("reports", "empty_until_prior").last(),
        prior_study_id=pl.col("study").last(),
        prior_clock=pl.col("clock").last(),
        count=pl.len(),
    )


def _latest_before(studies: pl.DataFrame, candidates: pl.DataFrame, key: str) -> pl.DataFrame:
    """The studies that have a candidate before them, with the latest one."""
    columns = ["prior_day", "prior_clock", "prior_study_id", "count", "by_time", "empty_until_prior"]
    candidates = candidates.select("subject", key, *columns).sort(key)
    joined = studies.sort(key).join_asof(
        candidates, on=key, by="subject", strategy="backward", allow_exact_matches=False, check_sortedness=False
    )
    found = joined.drop_nulls("prior_study_id")
    return found.select("_given", "subject", "day", "timed", "instant", *columns)


def _instant(day: str, clock: str) -> pl.Expr:
    """Date and time; midnight of a day without a time, before which nothing lies on that day."""
    return pl.col(day).dt.combine(pl.col(clock).fill_null(pl.time(0)))
