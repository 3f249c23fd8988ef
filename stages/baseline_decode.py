"""Stages `*_decode` of the baselines: a report for every record of the split; the command line
names the model."""

import sys
from functools import partial
from pathlib import Path

from pacer.config import Decode, load_params
from pacer.config.baselines import load_baseline_params
from pacer.core.schemas import read_records
from pacer.decoding.run import decode_records, trained_generator
from pacer.extras.baselines.adapted import load_adapted
from pacer.extras.baselines.ragpt import ragpt_generator
from pacer.extras.baselines.simmlm import SimMLM

MODELS = Path("baselines/models")


def main() -> None:
    name = sys.argv[1]
    # a baseline writes its own commitments, if any
    config = load_params().decode.model_copy(update={"commitment": "generated"})
    if name == "llm_rg4":
        search = load_baseline_params().llm_rg4.model_dump(exclude={"weights"})
        config = Decode.model_validate(config.model_dump() | search)
    records = read_records(Path("data/corpus/records.parquet"))
    features = Path("data/features")
    open_generator = trained_generator
    if name == "simmlm":
        open_generator = partial(trained_generator, load=partial(load_adapted, SimMLM))
    elif name == "ragpt":
        open_generator = ragpt_generator(MODELS / "ragpt_bank")
    out = Path("baselines/predictions") / name
    decode_records(
        MODELS / name, Path("models/backbones"), records, features, config, out, open_generator
    )
