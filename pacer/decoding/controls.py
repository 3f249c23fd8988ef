"""The controls of ``decode.controls``: twins of records with one source removed or exchanged, to
measure what a source contributes.

A twin is compared with the unchanged record: a system that uses the source writes a different,
worse report for the twin.
"""

from collections.abc import Callable
from functools import partial

import polars as pl

from pacer.core.errors import DataError
from pacer.core.exchange import exchange

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


def without(source: str, records: pl.DataFrame) -> pl.DataFrame:
    """Return the records that have ``source`` (``lateral`` or ``prior_report``) without it, in
    their new contexts."""
    letter, absent = {"lateral": ("^m", "s"), "prior_report": ("w$", "n")}[source]
    return records.filter(pl.col(source).is_not_null()).with_columns(
        pl.col("context").str.replace(letter, absent), pl.lit(None, pl.String).alias(source)
    )


#: The controls of ``decode.controls``: each takes records, and returns those that have a twin with
#: its inputs.
CONTROLS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "another_patient": another_patient,
    "no_lateral": partial(without, "lateral"),
    "no_prior": partial(without, "prior_report"),
    # only marked here; the report is written for the commitment that rules read from its reference
    "gold_list": lambda records: records.with_columns(gold_list=True),
}
