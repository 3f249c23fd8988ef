"""Stage `reference_labels`: CheXbert labels of the references of val and test, independent of any
model."""

from pathlib import Path

import polars as pl

from pacer.backbones.chexbert import label_references
from pacer.core.schemas import read_records


def main() -> None:
    records = read_records(Path("data/corpus/records.parquet"), ["record_id", "split", "report"])
    references = records.filter(pl.col("split") != "train")
    out = Path("data/labels/references.parquet")
    label_references(references, Path("models/backbones/chexbert"), out)
