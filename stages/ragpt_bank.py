"""Stage `ragpt_bank` of the baselines: the train studies that RAGPT retrieves from, and each
image's neighbours."""

from pathlib import Path

from pacer.config import load_params
from pacer.config.baselines import load_baseline_params
from pacer.core.schemas import read_records
from pacer.extras.baselines.bank import build_bank


def main() -> None:
    settings = load_baseline_params().ragpt.bank
    precision = load_params().train.precision
    records = read_records(Path("data/corpus/records.parquet"))
    models = Path("models")
    out = Path("baselines/models/ragpt_bank")
    build_bank(
        settings,
        precision,
        records,
        models / "backbones",
        Path("data/features"),
        models / "parent",
        out,
    )
