"""Stage `anchor_llm`: answers of the labelling model for the sampled records."""

from functools import partial
from pathlib import Path

import polars as pl

from pacer.anchors.labelling import label_sample
from pacer.anchors.rules import extract_anchor
from pacer.core.config import load_params
from pacer.core.errors import run_cleanly
from pacer.core.io import write_json
from pacer.corpus.records import read_records


def main() -> None:
    config = load_params().anchors
    candidate = partial(extract_anchor, version=config.rules)
    sample = pl.read_parquet("data/anchors/sample.parquet")
    records = read_records(Path("data/corpus/records.parquet"))
    audit = label_sample(sample, records, config.llm, Path("data/anchors"), candidate)
    write_json("data/anchors/llm_audit.json", audit)


if __name__ == "__main__":
    run_cleanly(main)
