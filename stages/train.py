"""Stages `warmup`, `parent` and `calibrate`: one training phase, named on the command line."""

import sys
from functools import partial
from pathlib import Path

from run import dvclive_log

from pacer.config import load_params
from pacer.training.run import Inputs, run_phase


def main() -> None:
    phase = sys.argv[1]
    params = load_params()
    models = Path("models")
    start = models / "parent" if phase == "calibrate" else None
    if phase == "parent":
        start = (
            models / "warmup"
            if params.parent.start == "warmup"
            else Path(params.parent.start).expanduser()
        )
    inputs = Inputs(
        corpus=Path("data/corpus"),
        backbones=models / "backbones",
        features=Path("data/features"),
        emphasis=Path("data/emphasis/emphasis.parquet"),
        anchors=None if phase == "warmup" else Path("data/anchors/anchors.parquet"),
        start=start,
    )
    run_phase(
        phase, params, inputs, models / phase, partial(dvclive_log, final=Path("metrics") / phase)
    )
