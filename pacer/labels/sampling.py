"""The stratified sample of training records whose commitments come from the labelling model.

The paper's cache has 2,500 records per context, drawn from the training split by a fixed stratified
procedure that emphasises uncertainty, negation, devices, common findings and temporal comparison.
Here, the strata of a context are filled in turn, starting with the smallest, each with an equal
share of the remaining draws. Records drawn for an earlier stratum do not count towards the share of
a later one. Records are ordered by a hash of seed and record id, so the sample does not depend on
their order in the table.
"""

import math

import polars as pl

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.core.io import hash_bytes

SAMPLE_SCHEMA: dict[str, pl.DataType] = {
    "record_id": pl.String(),
    "context": pl.String(),
    "strata": pl.List(pl.String()),  # names of the report's STRATA
}

#: Strata and the surface patterns (Rust regular expressions, case-insensitive) of their reports.
STRATA: dict[str, str] = {
    "uncertainty": r"\b(possibl[ey]|probabl[ey]|(may|might|could) (represent|reflect|be)"
    r"|questionable|suspect\w*"
    r"|suspicious|concerning|worrisome|not excluded|difficult to exclude|cannot (be )?exclude\w*"
    r"|likely|versus)\b",
    "negation": r"\b(no|not|without|absent|negative for|free of)\b",
    "devices": r"\b(tubes?|catheters?|picc|(central|subclavian|jugular|venous) lines?"
    r"|pacemakers?|pacer|leads|icd"
    r"|ports?|port-a-cath|devices?|drains?|swan-ganz|sternotomy wires)\b",
    "common_findings": r"\b(effusions?|opacit(y|ies)|atelecta\w+|cardiomegaly|edema"
    r"|consolidations?|pneumonia"
    r"|pneumothora(x|ces)|enlarged)\b",
    "temporal_comparison": r"\b(unchanged|stable|interval|compar\w+|previous(ly)?|prior|again"
    r"|new|newly|improv\w+"
    r"|wors\w+|increased?|decreased?|resolved|resolution|persistent|since|no longer)\b",
}

#: Columns whose values a sampled record may not share with a val or test record.
HELD_OUT_BY: tuple[str, ...] = ("record_id", "study_id", "subject_id")
#: Columns of the records that sampling and labelling read.
COLUMNS: tuple[str, ...] = (*HELD_OUT_BY, "context", "split", "report_raw")


def sample_records(records: pl.DataFrame, per_context: int, seed: int) -> pl.DataFrame:
    """Draw ``per_context`` training records of every context, or all of them if there are fewer.
    Raises a DataError if a record, study or subject of the sample also occurs in val or test.

    Args:
        records: a table with the columns :data:`COLUMNS`.
        seed: the sample depends only on seed and records.

    Returns:
        A table of :data:`SAMPLE_SCHEMA`, sorted by context and record id.
    """
    train = records.filter(pl.col("split") == "train").select("record_id", "context", "report_raw")
    order = pl.Series(
        [hash_bytes(f"{seed}:{record_id}".encode()) for record_id in train["record_id"]],
        dtype=pl.String,
    )
    matches = [
        pl.col("report_raw").str.contains(f"(?i){pattern}").alias(name)
        for name, pattern in STRATA.items()
    ]
    train = train.with_columns(order.alias("order"), *matches).drop("report_raw").sort("order")
    drawn = [_draw(train.filter(pl.col("context") == context), per_context) for context in CONTEXTS]
    strata = (
        pl.concat_list([pl.when(name).then(pl.lit(name)) for name in STRATA])
        .list.drop_nulls()
        .alias("strata")
    )
    sample = pl.concat(drawn).select("record_id", "context", strata)
    sample = sample.cast(pl.Schema(SAMPLE_SCHEMA)).sort("context", "record_id")
    refuse_held_out(records, sample["record_id"])
    return sample


def refuse_held_out(records: pl.DataFrame, record_ids: pl.Series) -> None:
    """Check that no sampled record, study or subject belongs to val or test. Raises a DataError if
    one does; the message names it."""
    chosen = records.filter(pl.col("record_id").is_in(record_ids.implode()))
    held_out = records.filter(pl.col("split") != "train")
    for column in HELD_OUT_BY:
        shared = chosen.join(held_out, on=column, how="semi")[column].unique().sort()
        if len(shared):
            raise DataError(
                f"{len(shared)} {column}s in the labelling sample also occur in val or test, e.g. "
                f"{shared[0]}; fix the splits in the annotation files (the corpus audit lists the "
                "overlaps)"
            )


def _draw(train: pl.DataFrame, count: int) -> pl.DataFrame:
    """Draw ``count`` rows of one context by the strata's shares of the remaining draws; return them
    in hash order."""
    names = sorted(STRATA, key=lambda name: (int(train[name].sum()), name))
    members = {name: train[name].arg_true().to_list() for name in names}
    drawn: set[int] = set()
    for position, name in enumerate(names):
        quota = math.ceil((count - len(drawn)) / (len(names) - position))
        drawn.update([row for row in members[name] if row not in drawn][:quota])
    drawn.update([row for row in range(train.height) if row not in drawn][: count - len(drawn)])
    return train[sorted(drawn)]
