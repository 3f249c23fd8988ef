"""Stages `*_score` of the baselines: the predictions of the model named, scored as those of PACER."""

import sys
from pathlib import Path

import polars as pl

from pacer.core.errors import run_cleanly
from pacer.metrics.scoring import decoded_records, limit_note, score_predictions
from pacer.params import load_params
from pacer.records.schemas import read_about, read_records


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("error: usage: stages/baseline_score.py NAME, a folder of baselines/predictions")
    name = sys.argv[1]
    config = load_params().score
    records = read_records(Path("data/corpus/records.parquet"))
    predictions = Path("baselines/predictions") / name
    truth = Path("data/corpus/truth.parquet")
    if note := limit_note(records, predictions):
        print(note)
    score_predictions(
        decoded_records(records, predictions),
        predictions,
        Path("data/labels/references.parquet"),
        Path("data/anchors/anchors.parquet"),
        Path("models/backbones/chexbert"),
        truth if truth.exists() else None,
        Path("baselines/metrics") / name,
        train_records=records.filter(pl.col("split") == "train"),
        convention=config.convention,
        originals=config.originals,
        batch_size=config.batch_size,
        about=read_about(Path("data/corpus/records.parquet")),
    )


if __name__ == "__main__":
    run_cleanly(main)
