"""Stage `features`: frozen image states and previous-report states, encoded once."""

from pathlib import Path

from pacer.config import load_params
from pacer.core.io import write_json
from pacer.core.processes import process_state
from pacer.core.schemas import read_images, read_records
from pacer.features.encode import build_store, picture_checks, read_looks, write_looks


def main() -> None:
    config = load_params().features
    records = read_records(Path("data/corpus/records.parquet"))
    images = read_images(Path("data/corpus/images.parquet"))
    priors = records["prior_report"].drop_nulls().unique(maintain_order=True).to_list()
    store = Path("data/features")
    pictures = Path("data/pictures/pictures.parquet")
    looks = read_looks(pictures)
    try:
        build_store(config, images, priors, Path("models/backbones"), store, looks)
    finally:  # what was encoded is kept
        if process_state().is_main_process:
            write_looks(pictures, looks)
    if process_state().is_main_process:
        checks = list(picture_checks(pictures, store / "images.parquet", records))
        write_json(
            pictures.with_name("audit.json"), {"checks": [check._asdict() for check in checks]}
        )
        for check in checks:
            print(f"features: {check.name}: {check.detail}", flush=True)
