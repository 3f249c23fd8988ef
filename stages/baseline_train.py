"""Stages `simmlm` and `ragpt` of the baselines: modules added to the frozen parent, named on the
command line."""

import sys
from functools import partial
from pathlib import Path

from run import dvclive_log

from pacer.config import load_params
from pacer.config.baselines import load_baseline_params
from pacer.extras.baselines.ragpt import train_ragpt
from pacer.extras.baselines.simmlm import train_simmlm
from pacer.training.run import Inputs

MODELS = Path("baselines/models")
INPUTS = Inputs(
    corpus=Path("data/corpus"),
    backbones=Path("models/backbones"),
    features=Path("data/features"),
    emphasis=Path("data/emphasis/emphasis.parquet"),
    anchors=Path("data/anchors/anchors.parquet"),
    start=Path("models/parent"),
)


def main() -> None:
    name = sys.argv[1]
    params = load_params()
    baselines = load_baseline_params()
    open_log = partial(dvclive_log, final=Path(f"baselines/metrics/{name}/training"))
    if name == "simmlm":
        train_simmlm(baselines.simmlm, params, INPUTS, MODELS / name, open_log)
    else:
        train_ragpt(baselines.ragpt, params, INPUTS, MODELS / "ragpt_bank", MODELS / name, open_log)
