"""Stage `reference_labels`: CheXbert labels of the references, independent of any model.

Val and test; where the latent truth is known train too, from which the constant report is chosen.
"""

from pathlib import Path

import polars as pl

from pacer.core.errors import run_cleanly
from pacer.metrics.chexbert.reference_labels import label_references
from pacer.params import load_params
from pacer.records.columns import read_columns


def main() -> None:
    score = load_params().score
    references = read_columns(Path("data/corpus/records.parquet"), ["record_id", "split", "report"])
    if not Path("data/corpus/truth.parquet").exists():
        references = references.filter(pl.col("split") != "train")
    label_references(
        references,
        Path("models/backbones/chexbert"),
        Path("data/labels/references.parquet"),
        score.batch_size,
        score.precision,
    )


if __name__ == "__main__":
    run_cleanly(main)
