"""Stage `anchor_llm`: answers of the labelling model for the sampled records."""

from pathlib import Path

import polars as pl

from pacer.anchors.labelling import label_sample
from pacer.core.config import load_params
from pacer.core.errors import run_cleanly
from pacer.core.io import write_json
from pacer.corpus.records import read_records


def main() -> None:
    config = load_params().anchors.llm
    sample = pl.read_parquet("data/anchors/sample.parquet")
    audit = label_sample(sample, read_records(Path("data/corpus/records.parquet")), config, Path("data/anchors"))
    write_json("data/anchors/llm_audit.json", audit)


if __name__ == "__main__":
    run_cleanly(main)
