"""CheXbert labels of the references: they depend on no model, so they are computed once.

A file of labels says which labeller made them, in which arithmetic and from which texts, so labels of other texts, of
another labeller or in another arithmetic are refused, never used: the two sides of a score are labelled alike.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from pacer.backbones.pointers import fingerprint
from pacer.core.errors import DataError
from pacer.core.io import atomic_path, hash_bytes
from pacer.metrics.chexbert.labeller import CheXbert
from pacer.metrics.chexbert.observations import OBSERVATIONS

#: Columns of ``references.parquet``; ``text`` is the SHA-256 of the report.
LABEL_SCHEMA = {"record_id": pl.String, "labels": pl.List(pl.Int64), "text": pl.String}
#: Where the file says what labelled it, in its own metadata.
_ABOUT = "pacer"
#: What to do about a file that does not fit, with and without the pipeline.
_REMEDY = (
    "make it again: give `pacer score --labels` another path, or in the pipeline "
    "`dvc repro --force --single-item reference_labels`"
)


def label_references(
    records: pl.DataFrame, chexbert_dir: str | Path, out: str | Path, batch_size: int = 64, precision: str = "float32"
) -> None:
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
    reports = records["report"].to_list()
    labeller = CheXbert(chexbert_dir, batch_size, precision=precision)
    labels = labeller(reports)
    table = pl.DataFrame(
        {"record_id": records["record_id"], "labels": labels.tolist(), "text": list(map(_hash, reports))},
        schema=LABEL_SCHEMA,
    )
    about = json.dumps({"labeller": fingerprint(chexbert_dir), "arithmetic": labeller.precision})
    with atomic_path(out) as temporary:
        table.write_parquet(temporary, metadata={_ABOUT: about})


class KnownLabels:
    """Labels of a file, given out for the texts and by the labeller that they were made with.

    Args:
        arithmetic: in which the labeller computes here (``score.precision``).

    Raises:
        DataError: the file is missing, malformed, or was made by another labeller than ``chexbert_dir`` or in another
            arithmetic.
    """

    def __init__(self, path: str | Path, chexbert_dir: str | Path, arithmetic: str):
        self.path = path
        table, about = _read(path)
        self._rows = {record: (labels, text) for record, labels, text in table.iter_rows()}
        if about.get("labeller") != fingerprint(chexbert_dir):
            raise DataError(f"{path} was made by another labeller than {chexbert_dir}; {_REMEDY}")
        if about.get("arithmetic") != arithmetic:
            raise DataError(
                f"{path} was labelled in {about.get('arithmetic', 'an arithmetic that it does not state')}, "
                f"and here the reports would be in {arithmetic}; set score.precision to the file's, or {_REMEDY}"
            )

    def __call__(self, records: pl.DataFrame) -> list[list[int]]:
        """The labels ``[n][14]`` of ``records.report``; of a record that the file lacks, those of its ``given_id``,
        where there is such a column.

        Raises:
            DataError: a record has no labels, or its report is not the one that was labelled.
        """
        found = []
        given = records["given_id" if "given_id" in records.columns else "record_id"].to_list()
        for (record, report), other in zip(records.select("record_id", "report").iter_rows(), given, strict=True):
            row = self._rows.get(record) or self._rows.get(other)
            if row is None:
                raise DataError(f"{self.path} has no labels for record {record}; {_REMEDY}")
            if row[1] != _hash(report):
                raise DataError(f"{self.path} holds labels of another report for record {record}; {_REMEDY}")
            found.append(row[0])
        return found


def _read(path: str | Path) -> tuple[pl.DataFrame, dict[str, str]]:
    """The labels, and what the file says of them."""
    try:
        table = pl.read_parquet(path, columns=list(LABEL_SCHEMA))
        about = dict(json.loads((pq.read_metadata(path).metadata or {}).get(_ABOUT.encode(), b"{}")))
    except (OSError, ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} is not a table of reference labels: {type(error).__name__}; {_REMEDY}") from None
    if any(value is None or len(value) != len(OBSERVATIONS) for value in table["labels"].to_list()):
        raise DataError(f"{path}: expected {len(OBSERVATIONS)} labels for each record")
    return table, about


def _hash(report: str) -> str:
    return hash_bytes(report.encode("utf-8", "surrogatepass"))
