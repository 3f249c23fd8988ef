"""Twins of records: the same records with one source removed or exchanged, to measure what a source
contributes.

A twin is compared with the record as it is: a system that uses the source writes another, worse
report for the twin.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import polars as pl

from pacer.core.errors import DataError

#: Columns with the model's inputs (all sources and the clinical context).
INPUTS = ("view", "frontal", "lateral", "prior_report", "indication", "history", "subject_id")


def another_patient(records: pl.DataFrame) -> pl.DataFrame:
    """Give each record all inputs of another patient's record of the same context. Raises a
    DataError if one patient has more than half of a context's records."""
    changed = exchange(records, INPUTS, ["context"])
    for (context,), part in records.group_by("context", maintain_order=True):
        if not (changed["context"] == context).any():
            most = max(part["subject_id"].value_counts()["count"].to_list())
            raise DataError(
                f"context {context}: one patient has {most} of {len(part)} records, so some cannot "
                "get another patient's sources; remove another_patient from decode.controls"
            )
    return changed


def exchange(
    records: pl.DataFrame, columns: Sequence[str], within: Sequence[str], seed: int | None = None
) -> pl.DataFrame:
    """Give each record the ``columns`` of another patient's record that has the same values in
    ``within``.

    Each group is sorted by patient (by id, or in an order of ``seed``), and the columns are rotated
    by the largest number of records of any patient. So no record gets columns of its own patient.
    Groups in which one patient has more than half of the records are left out.
    """
    patients = records["subject_id"].unique().sort()
    ranks = (
        np.arange(len(patients))
        if seed is None
        else np.random.default_rng(seed).permutation(len(patients))
    )
    order = dict(zip(patients, ranks.tolist(), strict=True))
    by_patient = pl.col("subject_id").replace_strict(order, return_dtype=pl.Int64)
    parts = [records.clear()]
    for _, group in records.group_by(within, maintain_order=True):
        part = group.sort(by_patient, "record_id")
        shift = max(part["subject_id"].value_counts()["count"].to_list())
        if 2 * shift <= len(part):
            donors = part.select(columns)
            parts.append(part.with_columns(pl.concat([donors[shift:], donors[:shift]])))
    return pl.concat(parts)


def without(source: str, records: pl.DataFrame) -> pl.DataFrame:
    """Return the records that have ``source`` (``lateral`` or ``prior_report``) without it, in
    their new contexts."""
    letter, absent = {"lateral": ("^m", "s"), "prior_report": ("w$", "n")}[source]
    having = records.filter(pl.col(source).is_not_null())
    return having.with_columns(
        pl.col("context").str.replace(letter, absent), pl.lit(None, pl.String).alias(source)
    )


#: The controls of ``decode.controls``: each takes records, and returns those that have a twin with
#: its inputs.
CONTROLS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "another_patient": another_patient,
    "no_lateral": partial(without, "lateral"),
    "no_prior": partial(without, "prior_report"),
    # a mark: the report is written for the commitment that rules read from its reference
    "gold_list": lambda records: records.with_columns(gold_list=True),
}
