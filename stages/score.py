"""Stage `score`, and `*_score` of a baseline named: the predictions of the decoded records against their references."""

import sys
from pathlib import Path

import polars as pl

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import PacerError, run_cleanly
from pacer.core.io import read_json
from pacer.metrics.inputs import ScoreInputs
from pacer.metrics.scoring import score_decoded
from pacer.params import load_params


def main() -> None:
    home = Path("baselines") if sys.argv[1:] else Path()
    name = sys.argv[1] if sys.argv[1:] else ""
    truth = Path("data/corpus/truth.parquet")
    score_decoded(
        Path("data/corpus/records.parquet"),
        home / "predictions" / name,
        home / "metrics" / name,
        ScoreInputs(
            Path("models/backbones/chexbert"),
            Path("data/labels/references.parquet"),
            Path("data/anchors/anchors.parquet"),
            truth if truth.exists() else None,
        ),
        load_params().score,
    )
    if not name:  # for `dvc plots`, which draws rows
        scores = read_json("metrics/scores.json")
        by_context = [{"context": context, **scores[context]} for context in CONTEXTS if context in scores]
        pl.DataFrame(by_context, infer_schema_length=None).write_csv("metrics/by_context.csv")
    external = read_json(home / "metrics" / name / "signature.json")["external"]
    if failed := [scorer for scorer, found in external.items() if "failed" in found]:
        raise PacerError(f"no numbers from {', '.join(failed)}; mend score.external, or take it out, and repeat")


if __name__ == "__main__":
    run_cleanly(main)
