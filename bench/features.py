"""Speed of the features stage against the bare encoder.

    python bench/features.py [--preset cpu|gpu] [--out FILE]

Images/s of the stage from JPG files are compared in turns with the bare forward of the encoder on prepared batches. The
encoder has RAD-DINO's shape (ViT-B/14 at 518 pixels) and random weights.

If a bar is missed, the exit code is 1.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
import torch
from measuring import given, publish, ratio, table
from PIL import Image
from torch import Tensor
from transformers import BertConfig, BertModel, BitImageProcessorPil, Dinov2Config, Dinov2Model

from pacer.config import Features
from pacer.core.devices import share_cores
from pacer.features.encode import build_store
from pacer.features.encoder import ImageEncoder


@dataclass(frozen=True)
class Preset:
    """Sizes of one machine's measurement.

    Attributes:
        edge: pixels of the encoder's input. hidden, layers, heads: of the encoder. film: width and height of the JPG
            files. files: number of distinct ones. images: number in the store, each one of the files. bare: number of
            images in the bare forward.
        precision: ``features.precision``.
        limit: least rate of the stage, as a share of the bare forward.
    """

    device: str
    edge: int
    hidden: int
    layers: int
    heads: int
    film: tuple[int, int]
    files: int
    images: int
    bare: int
    batch_size: int
    shard_size: int
    workers: int
    precision: str
    turns: int
    limit: float


VIT_B = {"edge": 518, "hidden": 768, "layers": 12, "heads": 12, "film": (3000, 2500)}
PRESETS = {
    "cpu": Preset(
        "cpu",
        **VIT_B,
        files=6,
        images=24,
        bare=12,
        batch_size=4,
        shard_size=8,
        workers=1,
        precision="float32",
        turns=3,
        limit=0.95,
    ),
    "gpu": Preset(
        "cuda",
        **VIT_B,
        files=32,
        images=2048,
        bare=1024,
        batch_size=64,
        shard_size=512,
        workers=14,
        precision="float32",
        turns=3,
        limit=0.95,
    ),
}


def miniature(preset: Preset) -> Preset:
    """Return a tiny version of a preset, which takes seconds on a CPU; its figures mean nothing."""
    return replace(
        preset,
        device="cpu",
        edge=28,
        hidden=16,
        layers=3,
        heads=2,
        film=(40, 30),
        files=2,
        images=8,
        bare=4,
        batch_size=2,
        shard_size=4,
        workers=2,
        turns=1,
        limit=0.0,
    )


def film(seed: int, size: tuple[int, int]) -> Image.Image:
    """Draw a grey image of soft shapes and grain.

    As a JPG of quality 95 and 3,000 x 2,500 pixels it has 1.5 MB, the mean of MIMIC-CXR-JPG's 377,110 images.
    """
    rng = np.random.default_rng(seed)
    shapes = Image.fromarray(rng.integers(0, 256, (10, 12), dtype=np.uint8)).resize(size, 3)
    grain = rng.normal(0, 1.9, size[::-1])
    return Image.fromarray((np.asarray(shapes) + grain).clip(0, 255).astype(np.uint8))


def write_backbones(folder: Path, edge: int, hidden: int, layers: int, heads: int) -> Path:
    """Write a random encoder with its image processor, and a small BERT."""
    torch.manual_seed(0)
    Dinov2Model(
        Dinov2Config(
            hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, image_size=edge, patch_size=14
        )
    ).save_pretrained(folder / "vision")
    BitImageProcessorPil(
        size={"shortest_edge": edge},
        crop_size={"height": edge, "width": edge},
        image_mean=[0.5307] * 3,
        image_std=[0.2583] * 3,
    ).save_pretrained(folder / "vision")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "edema"]
    BertModel(
        BertConfig(
            vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
        )
    ).save_pretrained(folder / "text")
    (folder / "text" / "vocab.txt").write_text("\n".join(words) + "\n")
    return folder


def settings(preset: Preset) -> Features:
    layers = preset.layers
    return Features(
        mode="states",
        depths=[layers // 3, 2 * layers // 3, layers],
        dtype="bfloat16",
        precision=preset.precision,
        batch_size=preset.batch_size,
        shard_size=preset.shard_size,
        workers=preset.workers,
        prior_tokens=8,
    )


def stage_rate(preset: Preset, folder: Path, images: pl.DataFrame) -> float:
    """Return the images/s of the stage from its first whole batch, when the models are loaded, to its end."""
    encode, begun = ImageEncoder.encode_levels, []

    def noting(encoder: ImageEncoder, levels: Tensor) -> Tensor:
        states = encode(encoder, levels)
        if not begun and len(levels) == preset.batch_size:
            _wait(preset)
            begun.append(time.perf_counter())
        return states

    with patch.object(ImageEncoder, "encode_levels", noting):
        build_store(settings(preset), images, [], folder, folder / "store")
    seconds = time.perf_counter() - begun[0]
    shutil.rmtree(folder / "store")
    return (len(images) - preset.batch_size) / seconds


def bare_rate(preset: Preset, encoder: ImageEncoder, batches: Sequence[Tensor]) -> float:
    """Return the images/s of only the encoder, on prepared batches."""
    _wait(preset)
    started = time.perf_counter()
    for batch in batches:
        encoder.encode(batch)
    _wait(preset)
    return sum(map(len, batches)) / (time.perf_counter() - started)


def measure_speed(preset: Preset) -> tuple[float, list[str]]:
    """Compare the stage with the bare encoder; return its share of that rate, and the results as Markdown."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_backbones(Path(temporary), preset.edge, preset.hidden, preset.layers, preset.heads)
        files = [str(folder / f"{seed}.jpg") for seed in range(preset.files)]
        for seed, path in enumerate(files):
            film(seed, preset.film).save(path, quality=95)
        paths = [files[i % len(files)] for i in range(preset.images)]
        images = pl.DataFrame({"image_id": [str(i) for i in range(preset.images)], "path": paths})
        encoder = ImageEncoder(folder / "vision", settings(preset).depths, preset.device, preset.precision)
        prepared = torch.stack([encoder.preparation(path) for path in files]).to(preset.device)
        batches = [
            prepared[[i % len(files) for i in range(start, start + preset.batch_size)]]
            for start in range(0, preset.bare, preset.batch_size)
        ]
        encoder.encode(batches[0])  # warm up
        rates: dict[str, list[float]] = {"stage": [], "bare": []}
        for _ in range(preset.turns):
            rates["bare"].append(bare_rate(preset, encoder, batches))
            rates["stage"].append(stage_rate(preset, folder, images))
    share, told = ratio(rates["stage"], rates["bare"])
    words = {"stage": "the stage, from JPG files to shards", "bare": "bare forward of the encoder"}
    rows = [[words[part], f"{statistics.median(found):,.2f}"] for part, found in rates.items()]
    return share, [
        f"Encoder: {preset.layers} layers of width {preset.hidden} at {preset.edge} pixels, {preset.precision}; "
        f"grey JPG files of {preset.film[0]:,} x {preset.film[1]:,}; batches of {preset.batch_size}; median of "
        f"{preset.turns} turns.",
        "",
        *table(["", "images/s"], rows),
        f"The stage over the bare forward: {told}.",
        "",
    ]


def _wait(preset: Preset) -> None:
    if preset.device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    preset, out = given(__doc__, PRESETS, miniature)
    share_cores(1)
    share, lines = measure_speed(preset)
    publish("The features stage", torch.device(preset.device), lines, out)
    if share < preset.limit:
        sys.exit(f"missed: the stage is at {share:.2f} of the bare forward, not {preset.limit}")


if __name__ == "__main__":
    main()
