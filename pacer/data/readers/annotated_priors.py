"""Check of the previous reports in MIMIC-RG4's annotations against PhysioNet's metadata: are they of earlier studies?

Files were published in which a patient's studies follow their ids, which are not in the order of their dates.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pacer.data.account import Account
from pacer.data.readers.mimic_cxr import study_times
from pacer.data.values import MIMIC_PATH

_EARLIER = "of an earlier study"


def check_priors(records: pl.DataFrame, metadata: Path, account: Account) -> None:
    """Count and list the records whose previous report is not of an earlier study of the same patient.

    The path of its image (``prior_image``) tells which study a previous report is of. Each doubt is a line of kind
    ``doubted`` in the account, which costs no record.
    """
    times = study_times(metadata).unique("study", keep="last", maintain_order=True)
    subject, study = (pl.col("prior_image").str.extract(MIMIC_PATH, group) for group in (1, 2))
    pairs = records.drop_nulls("prior_report").with_columns(named=subject, before=study)
    pairs = pairs.join(times, left_on="before", right_on="study", how="left", maintain_order="left")
    now = times.select("study", "day", "clock")
    pairs = pairs.join(now, left_on="study_id", right_on="study", how="left", maintain_order="left", suffix="_now")
    is_same_day = pl.col("day") == pl.col("day_now")
    relation = (
        pl.when(pl.col("before") == pl.col("study_id")).then(pl.lit("of the same study"))
        .when(pl.coalesce("subject", "named") != pl.col("subject_id")).then(pl.lit("of another patient"))
        .when(pl.col("subject").is_null()).then(pl.lit("its study was not found"))
        .when((pl.col("day") < pl.col("day_now")) | (is_same_day & (pl.col("clock") < pl.col("clock_now"))))
        .then(pl.lit(_EARLIER))
        .when((pl.col("day") > pl.col("day_now")) | (is_same_day & (pl.col("clock") > pl.col("clock_now"))))
        .then(pl.lit("of a later study"))
        .otherwise(pl.lit("the order of the two studies is not known"))
    )  # fmt: skip
    pairs = pairs.select("file", "row", "id", "context", reason=relation)
    for context, reason in pairs.select("context", "reason").iter_rows():
        account.count("checked_priors" if reason == _EARLIER else "doubted_priors", context, reason)
    doubts = pairs.filter(pl.col("reason") != _EARLIER)
    account.add(doubts.with_columns(field=pl.lit("last_finding"), kind=pl.lit("doubted"), rows=pl.lit(0)))
