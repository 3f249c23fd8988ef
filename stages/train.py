"""Stages `warmup`, `parent` and `calibrate`: one training phase, named on the command line."""

import os
import sys
from functools import partial
from pathlib import Path

from curves import dvclive_log

from pacer.config import Params, load_params
from pacer.core.devices import share_cores
from pacer.core.errors import run_cleanly
from pacer.training.run import Inputs, run_phase

PHASES = ("warmup", "parent", "calibrate")


def start_of(phase: str, params: Params) -> Path | None:
    """The checkpoint that a phase starts from."""
    if phase == "parent":
        return Path("models/warmup") if params.parent.start == "warmup" else Path(params.parent.start).expanduser()
    return Path("models/parent") if phase == "calibrate" else None


def main() -> None:
    phase = sys.argv[1] if len(sys.argv) > 1 else ""
    if phase not in PHASES:
        sys.exit(f"error: usage: stages/train.py {' | '.join(PHASES)}")
    params = load_params()
    share_cores(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    inputs = Inputs(
        corpus=Path("data/corpus"),
        backbones=Path("models/backbones"),
        features=Path("data/features"),
        emphasis=Path("data/emphasis/emphasis.parquet"),
        anchors=None if phase == "warmup" else Path("data/anchors/anchors.parquet"),
        start=start_of(phase, params),
    )
    open_log = partial(dvclive_log, final=Path(f"metrics/{phase}"))
    run_phase(phase, params, inputs, Path(f"models/{phase}"), open_log)


if __name__ == "__main__":
    run_cleanly(main)
