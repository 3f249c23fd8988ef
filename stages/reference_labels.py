"""Stage `reference_labels`: CheXbert labels of the references of val and test, independent of any model."""

from pathlib import Path

import polars as pl

from pacer.data.schemas import read_records
from pacer.metrics.reference_labels import label_references


def main() -> None:
    references = read_records(Path("data/corpus/records.parquet"), ["record_id", "split", "report"])
    label_references(
        references.filter(pl.col("split") != "train"),
        Path("models/backbones/chexbert"),
        Path("data/labels/references.parquet"),
    )
