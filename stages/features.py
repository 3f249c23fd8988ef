"""Stage `features`: frozen image states and previous-report states, encoded once."""

from pathlib import Path

from pacer.config import load_params
from pacer.data.schemas import read_images, read_records
from pacer.features.encode import build_store


def main() -> None:
    config = load_params().features
    records = read_records(Path("data/corpus/records.parquet"))
    images = read_images(Path("data/corpus/images.parquet"))
    priors = records["prior_report"].drop_nulls().unique(maintain_order=True).to_list()
    build_store(config, images, priors, Path("models/backbones"), Path("data/features"))
