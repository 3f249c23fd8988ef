"""Labels a sample in a process of its own, which a test can kill: `python -m tests.support.labelling_drive FOLDER`.

FOLDER holds `records.parquet`, `sample.parquet` and `config.json`; the cache and `audit.json` come to lie beside them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
from openai import _base_client

from pacer.commitments.labelling import label_sample
from pacer.config import Labelling
from pacer.core.io import read_json, write_json
from pacer.core.outputs import run_stage


def main() -> None:
    _base_client.INITIAL_RETRY_DELAY = 0.01
    folder = Path(sys.argv[1])
    config = Labelling.model_validate(read_json(folder / "config.json"))
    sample, records = pl.read_parquet(folder / "sample.parquet"), pl.read_parquet(folder / "records.parquet")
    write_json(folder / "audit.json", label_sample(sample, records, config, folder))


if __name__ == "__main__":
    run_stage(main)
