"""Control inputs: the same records with a source removed or exchanged, to measure what the sources contribute."""

from __future__ import annotations

from functools import partial

import polars as pl

from pacer.core.errors import DataError

#: Columns with the model's inputs (all sources and the clinical context).
INPUTS = ("view", "frontal", "lateral", "prior_report", "indication", "history", "subject_id")


def another_patient(records: pl.DataFrame) -> pl.DataFrame:
    """Give each record all inputs of another patient's record of the same context.

    Records are sorted by patient, and the inputs are rotated by the largest number of records of any patient. So no
    record gets inputs of its own patient.

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
    """Return the records of a context without their one additional source: decoded as sn, with the same ids."""
    return records.filter(pl.col("context") == context).with_columns(
        pl.lit("sn").alias("context"), pl.lit(None, dtype=pl.String).alias(source)
    )


CONTROLS = {
    "another_patient": another_patient,
    "no_lateral": partial(_without, "lateral", "mn"),
    "no_prior": partial(_without, "prior_report", "sw"),
}
