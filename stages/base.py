"""Stages `base_warmup` and `base` of the baselines: the two training phases without Refine and Commit."""

import os
import sys
from pathlib import Path

from curves import dvclive_log

from pacer.baselines.base import base_params
from pacer.core.errors import run_cleanly
from pacer.parallel.threads import share_cores
from pacer.params import load_params
from pacer.training.run import run_phase

MODELS = Path("baselines/models")
#: Phase of the pipeline by the name of the stage.
PHASES = {"base_warmup": "warmup", "base": "parent"}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in PHASES:
        sys.exit(f"error: usage: stages/base.py {' | '.join(PHASES)}")
    params = base_params(load_params())
    share_cores(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    run_phase(
        PHASES[name],
        params,
        corpus=Path("data/corpus"),
        backbones=Path("models/backbones"),
        features=Path("data/features"),
        anchors=Path("data/anchors/anchors.parquet") if name == "base" else None,
        start=MODELS / "base_warmup" if name == "base" else None,
        out=MODELS / name,
        open_log=lambda scratch: dvclive_log(scratch, Path(f"baselines/metrics/{name}/training")),
    )


if __name__ == "__main__":
    run_cleanly(main)
