"""Stages `simmlm` and `ragpt` of the baselines: modules added to the frozen parent, named on the command line."""

import os
import sys
from pathlib import Path
from typing import Any

from curves import dvclive_log

from pacer.baselines.run import train_ragpt, train_simmlm
from pacer.core.errors import run_cleanly
from pacer.parallel.threads import share_cores
from pacer.params import load_params
from pacer.params.baselines import load_baseline_params

NAMES = ("simmlm", "ragpt")


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in NAMES:
        sys.exit(f"error: usage: stages/baseline_train.py {' | '.join(NAMES)}")
    params, own = load_params(), load_baseline_params()
    share_cores(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    paths: dict[str, Any] = {
        "corpus": Path("data/corpus"),
        "backbones": Path("models/backbones"),
        "features": Path("data/features"),
        "anchors": Path("data/anchors/anchors.parquet"),
        "parent": Path("models/parent"),
        "out": Path(f"baselines/models/{name}"),
        "open_log": lambda scratch: dvclive_log(scratch, Path(f"baselines/metrics/{name}/training")),
    }
    if name == "simmlm":
        train_simmlm(own.simmlm, params, **paths)
    else:
        train_ragpt(own.ragpt, params, bank=Path("baselines/models/ragpt_bank"), **paths)


if __name__ == "__main__":
    run_cleanly(main)
