"""Stage `anchor_llm`: answers of the labelling model for the sampled records."""

from pathlib import Path

import polars as pl

from pacer.config import load_params
from pacer.core.io import write_json
from pacer.core.schemas import read_records
from pacer.labels.labelling import label_sample
from pacer.labels.sampling import COLUMNS


def main() -> None:
    config = load_params().anchors
    sample = pl.read_parquet("data/anchors/sample.parquet")
    records = read_records(Path("data/corpus/records.parquet"), COLUMNS)
    audit = label_sample(sample, records, config.llm, Path("data/anchors"), config.rules)
    write_json("data/anchors/llm_audit.json", audit)
