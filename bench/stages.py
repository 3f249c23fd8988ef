"""Rates of the heavy stages on this machine, with the models and the corpus of the last `dvc repro`.

    python bench/stages.py

Prints one line per measurement: its name, its rate, and the share of its time that the bare computation takes. Both are
timed in turns in the same run, so that a busy machine affects both alike. No files are written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import polars as pl
import torch

from pacer.backbones.pointers import resolve
from pacer.config import load_params
from pacer.core.contexts import CONTEXTS
from pacer.data.schemas import read_records
from pacer.decoding.generate import Generator
from pacer.features.encoder import ImageEncoder
from pacer.features.store import FeatureStore
from pacer.model.assemble import load_model, load_tokenizer
from pacer.training.examples import Examples, RecordTable
from pacer.training.losses import objective
from pacer.training.phases import phase_of

BACKBONES, REPEATS = Path("models/backbones"), 5


def seconds(work: Callable[[], object]) -> float:
    """Return the wall seconds of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compare(name: str, unit: str, count: int, whole: Callable[[], object], bare: Callable[[], object]) -> None:
    """Time ``whole`` and the ``bare`` computation inside it in turn and print the medians."""
    whole(), bare()
    times = [(seconds(whole), seconds(bare)) for _ in range(REPEATS)]
    total, inner = median(t for t, _ in times), median(t for _, t in times)
    print(f"{name}: {count / total:.1f} {unit}/s, {inner / total:.2f} of the time is the bare computation")


def main() -> None:
    params = load_params()
    if not Path("models/calibrate").exists():
        raise SystemExit("error: bench/stages.py measures the models of the last run; run `make repro` first")
    records = read_records(Path("data/corpus/records.parquet"))
    images = pl.read_parquet("data/corpus/images.parquet")["path"].head(64).to_list()

    encoder = ImageEncoder(resolve(BACKBONES / "vision"), params.features.depths)
    pixels = torch.stack([encoder.preparation(path) for path in images])
    compare(
        "features: prepare and encode",
        "images",
        len(images),
        lambda: encoder.encode(torch.stack([encoder.preparation(path) for path in images])),
        lambda: encoder.encode(pixels),
    )

    model, record = load_model("models/calibrate", BACKBONES)
    if model.calibrator is not None:
        model.calibrator.requires_grad_(True)
    tokenizer, store = load_tokenizer(BACKBONES), FeatureStore("data/features")
    tables = [Path("data") / name for name in ("corpus/records.parquet", "emphasis/emphasis.parquet")]
    table = RecordTable.read(*tables, Path("data/anchors/anchors.parquet"), CONTEXTS)
    examples = Examples(table, tokenizer, store, record.model)
    rows = examples.table.rows("train", ["sn"])["sn"][: params.calibrate.batch_size]
    batch = examples.batch(rows, [True] * len(rows), params.calibrate.lambda_q)

    def step(made) -> None:
        objective(model, made, phase_of("calibrate", params).losses)

    compare(
        "calibrate: batch and losses",
        "records",
        len(rows),
        lambda: step(examples.batch(rows, [True] * len(rows), params.calibrate.lambda_q)),
        lambda: step(batch),
    )

    generator = Generator(model, tokenizer, store, record.model, params.decode)
    cases = records.filter(pl.col("split") == params.decode.split).head(params.decode.batch_size).to_dicts()
    greedy = Generator(model, tokenizer, store, record.model, params.decode.model_copy(update={"num_beams": 1}))
    compare(
        f"decode: {params.decode.num_beams} beams against greedy",
        "reports",
        len(cases),
        lambda: generator(cases),
        lambda: greedy(cases),
    )


if __name__ == "__main__":
    main()
