"""Exchange of columns between patients, to measure what a source or a report contributes beyond
chance."""

from collections.abc import Sequence

import numpy as np
import polars as pl


def exchange(
    records: pl.DataFrame, columns: Sequence[str], same: Sequence[str], seed: int | None = None
) -> pl.DataFrame:
    """Give each record the ``columns`` of another patient's record that has the same values in the
    columns ``same``.

    Each group is sorted by patient (by id, or in a random order that ``seed`` determines), and the
    columns are rotated by the largest number of records of any patient. So no record gets columns
    of its own patient.
    Groups in which one patient has more than half of the records are left out.
    """
    patients = records["subject_id"].unique().sort()
    ranks = np.arange(len(patients))
    if seed is not None:
        ranks = np.random.default_rng(seed).permutation(ranks)
    order = dict(zip(patients, ranks.tolist(), strict=True))
    by_patient = pl.col("subject_id").replace_strict(order, return_dtype=pl.Int64)
    parts = [records.clear()]
    for _, group in records.group_by(same, maintain_order=True):
        part = group.sort(by_patient, "record_id")
        shift = max(part["subject_id"].value_counts()["count"].to_list())
        if 2 * shift <= len(part):
            donors = part.select(columns)
            parts.append(part.with_columns(pl.concat([donors[shift:], donors[:shift]])))
    return pl.concat(parts)
