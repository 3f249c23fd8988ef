"""Stage `decode`: a report for every record of the split, and for the control inputs."""

import os
from pathlib import Path

from pacer.config import load_params
from pacer.core.devices import share_cores
from pacer.core.outputs import run_stage
from pacer.data.schemas import read_records
from pacer.decoding.run import decode_records


def main() -> None:
    config = load_params().decode
    share_cores(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    records = read_records(Path("data/corpus/records.parquet"))
    decode_records(
        Path("models/calibrate"), Path("models/backbones"), records, Path("data/features"), config, Path("predictions")
    )


if __name__ == "__main__":
    run_stage(main)
