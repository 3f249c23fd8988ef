"""CheXbert labels of the references: they depend on no model, so they are computed once."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import atomic_path
from pacer.metrics.chexbert import OBSERVATIONS, CheXbert

#: Columns of ``references.parquet``.
LABEL_SCHEMA = {"record_id": pl.String, "labels": pl.List(pl.Int64)}


def label_references(records: pl.DataFrame, chexbert_dir: str | Path, out: str | Path, batch_size: int = 64) -> None:
    """Label ``records.report`` and write ``record_id``, ``labels`` (14 classes) to the Parquet file ``out``.

    Raises:
        DataError: a record id occurs twice or a report is null. BackboneError: the labeller is not usable.
    """
    repeated = records.filter(pl.col("record_id").is_duplicated())
    if len(repeated):
        raise DataError(f"record {repeated['record_id'][0]} occurs more than once")
    empty = records.filter(pl.col("report").is_null())
    if len(empty):
        raise DataError(f"record {empty['record_id'][0]} has no report to label")
    labels = CheXbert(chexbert_dir, batch_size)(records["report"].to_list())
    table = pl.DataFrame({"record_id": records["record_id"], "labels": labels.tolist()}, schema=LABEL_SCHEMA)
    with atomic_path(out) as temporary:
        table.write_parquet(temporary)


def read_labels(path: str | Path) -> dict[str, list[int]]:
    """``{record_id: 14 classes}`` from a file of :func:`label_references`.

    Raises:
        DataError: the file is missing or malformed.
    """
    try:
        table = pl.read_parquet(path)
        labels = dict(zip(table["record_id"].to_list(), table["labels"].to_list(), strict=True))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} is no table of reference labels: {type(error).__name__}; repeat the stage "
                        "`reference_labels`") from None
    if any(value is None or len(value) != len(OBSERVATIONS) for value in labels.values()):
        raise DataError(f"{path}: expected {len(OBSERVATIONS)} labels for each record")
    return labels
