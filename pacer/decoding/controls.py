"""Control inputs: the same records with a source taken away or exchanged, to see what the sources contribute."""

from __future__ import annotations

from functools import partial

import polars as pl

from pacer.core.errors import DataError

#: Columns that hold what the model is given (all sources and the clinical context).
INPUTS = ("view", "frontal", "lateral", "prior_report", "indication", "history", "subject_id")


def another_patient(records: pl.DataFrame) -> pl.DataFrame:
    """Each record of a context with all inputs of another patient's record of the same context.

    Records are sorted by patient and the inputs rotated by the largest number of records that one patient has, so
    no record meets its own patient again.

    Raises:
        DataError: one patient has more than half of a context's records.
    """
    parts = []
    for (context,), part in records.group_by("context", maintain_order=True):
        ordered = part.sort("subject_id", "record_id")
        shift = max(ordered["subject_id"].value_counts()["count"].to_list())
        donors = ordered.select(INPUTS)
        donors = pl.concat([donors[shift:], donors[:shift]])
        if (donors["subject_id"] == ordered["subject_id"]).any():
            raise DataError(
                f"context {context}: one patient has {shift} of {len(part)} records, so no other patient's sources can "
                "be given to each; leave another_patient out of decode.controls"
            )
        parts.append(ordered.with_columns(donors))
    return pl.concat(parts) if parts else records


def _without(source: str, context: str, records: pl.DataFrame) -> pl.DataFrame:
    """The records of a context without their one further source: decoded as sn; record ids stay."""
    return records.filter(pl.col("context") == context).with_columns(
        pl.lit("sn").alias("context"), pl.lit(None, dtype=pl.String).alias(source)
    )


CONTROLS = {
    "another_patient": another_patient,
    "no_lateral": partial(_without, "lateral", "mn"),
    "no_prior": partial(_without, "prior_report", "sw"),
}
