"""Stage `decode`: a report for every record of the split, and for the control inputs."""

from functools import partial
from pathlib import Path

from pacer.config import load_params
from pacer.core.schemas import read_records
from pacer.decoding.run import decode_records, trained_generator, with_trained_views


def main() -> None:
    config = load_params().decode
    records = read_records(Path("data/corpus/records.parquet"))
    records = with_trained_views(records, set(records.filter(split="train")["view"]))
    models = Path("models")
    features = Path("data/features")
    out = Path("predictions")
    open_generator = partial(trained_generator, findings=models / "lists")
    decode_records(
        models / "calibrate", models / "backbones", records, features, config, out, open_generator
    )
