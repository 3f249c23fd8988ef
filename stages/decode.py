"""Stage `decode`: a report for every record of the split, and for the control inputs."""

from pathlib import Path

from pacer.config import load_params
from pacer.data.schemas import read_records
from pacer.decoding.run import decode_records


def main() -> None:
    config = load_params().decode
    records = read_records(Path("data/corpus/records.parquet"))
    decode_records(
        Path("models/calibrate"), Path("models/backbones"), records, Path("data/features"), config, Path("predictions")
    )
