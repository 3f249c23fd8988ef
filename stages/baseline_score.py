"""Stages `*_score` of the baselines: the predictions of the model named, scored as those of PACER."""

import sys
from pathlib import Path

from pacer.core.errors import run_cleanly
from pacer.metrics.inputs import ScoreInputs, ScoreSettings
from pacer.metrics.scoring import score_decoded
from pacer.params import load_params


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("error: usage: stages/baseline_score.py NAME, a folder of baselines/predictions")
    truth = Path("data/corpus/truth.parquet")
    score_decoded(
        Path("data/corpus/records.parquet"),
        Path("baselines/predictions") / sys.argv[1],
        Path("baselines/metrics") / sys.argv[1],
        ScoreInputs(
            Path("models/backbones/chexbert"),
            Path("data/labels/references.parquet"),
            Path("data/anchors/anchors.parquet"),
            truth if truth.exists() else None,
        ),
        ScoreSettings(**load_params().score.model_dump()),
    )


if __name__ == "__main__":
    run_cleanly(main)
