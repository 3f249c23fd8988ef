"""CheXbert labels of the references: they depend on no model, so they are computed once.

A file of labels records its labeller and the texts. Labels of other texts or from another labeller are refused, so both
sides of a score are always labelled in the same way.
"""

import json
from pathlib import Path

import polars as pl

from pacer.backbones.chexbert import CheXbert
from pacer.backbones.pointers import fingerprint
from pacer.core.errors import DataError
from pacer.core.io import atomic_path, hash_bytes
from pacer.data.schemas import ABOUT, read_about, read_table

#: Columns of ``references.parquet``; ``text`` is the SHA-256 of the report.
LABEL_SCHEMA: dict[str, pl.DataType] = {"record_id": pl.String(), "labels": pl.List(pl.Int64()), "text": pl.String()}
#: Remedy for a file that does not fit, with and without the pipeline.
_REMEDY = (
    "regenerate it: pass a different path to `pacer score --labels`, or in the pipeline run "
    "`dvc repro --force --single-item reference_labels`"
)


def label_references(records: pl.DataFrame, chexbert_dir: str | Path, out: str | Path) -> None:
    """Label ``records.report`` and write the columns of :data:`LABEL_SCHEMA` to the Parquet file ``out``. Raises a
    BackboneError if the labeller is not usable."""
    reports = records["report"].to_list()
    labels = CheXbert(chexbert_dir)(reports).tolist()
    columns = {"record_id": records["record_id"], "labels": labels, "text": list(map(_hash, reports))}
    table = pl.DataFrame(columns, schema=LABEL_SCHEMA)
    about = json.dumps({"labeller": fingerprint(chexbert_dir)})
    with atomic_path(out) as temporary:
        table.write_parquet(temporary, metadata={ABOUT: about})


def known_labels(path: str | Path, records: pl.DataFrame, chexbert_dir: str | Path) -> list[list[int]]:
    """Return the labels ``[n][14]`` of ``records.report`` from the file that :func:`label_references` wrote. Raises a
    DataError if the file is missing or malformed, comes from another labeller, or lacks the labels of a record's
    report."""
    table, about = read_table(path, LABEL_SCHEMA), read_about(path)
    if about.get("labeller") != fingerprint(chexbert_dir):
        raise DataError(f"{path} comes from a labeller other than {chexbert_dir}; {_REMEDY}")
    by_text = dict(table.select("text", "labels").iter_rows())
    texts = list(map(_hash, records["report"]))
    lacking = [record for record, text in zip(records["record_id"], texts, strict=True) if text not in by_text]
    if lacking:
        raise DataError(
            f"{path} has no labels for the reference of record {lacking[0]}: the labels are for different "
            f"references, or for uncleaned ones; {_REMEDY}"
        )
    return [by_text[text] for text in texts]


def _hash(report: str) -> str:
    return hash_bytes(report.encode("utf-8", "surrogatepass"))
