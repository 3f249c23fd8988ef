"""Stage `emphasis`: the tokens of every train and val report that L_TLW emphasises, as released or
by the recipe."""

from pathlib import Path

from pacer.config import load_params
from pacer.emphasis.build_emphasis import build_emphasis


def main() -> None:
    records = Path("data/corpus/records.parquet")
    build_emphasis(load_params().emphasis, records, Path("models/backbones"), Path("data/emphasis"))
