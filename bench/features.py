"""Speed of the features stage against the bare encoder.

    python bench/features.py [--preset cpu|gpu] [--out FILE]

Images/s of the stage from JPG files are compared in turns with the bare forward of the encoder on
prepared batches. The encoder has RAD-DINO's shape (ViT-B/14 at 518 pixels) and random weights.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
import torch
from measuring import Meter, Preset, ratio, run, table
from PIL import Image
from torch import Tensor
from transformers import BertConfig, BitImageProcessorPil, Dinov2Config, Dinov2Model

from pacer.config import Features
from pacer.core.devices import share_cores
from pacer.features.encode import build_store
from pacer.features.encoder import ImageEncoder
from pacer.images.radiographs import open_image


def film(seed: int, size: tuple[int, int]) -> Image.Image:
    """Draw a grey image of soft shapes and grain.

    As a JPG of quality 95 and 3,000 x 2,500 pixels it has 1.5 MB, the mean of MIMIC-CXR-JPG's
    377,110 images.
    """
    rng = np.random.default_rng(seed)
    shapes = Image.fromarray(rng.integers(0, 256, (10, 12), dtype=np.uint8)).resize(size, 3)
    grain = rng.normal(0, 1.9, size[::-1])
    return Image.fromarray((np.asarray(shapes) + grain).clip(0, 255).astype(np.uint8))


def write_backbones(folder: Path, preset: Preset) -> None:
    """Write a random encoder with its image processor."""
    torch.manual_seed(0)
    vision = Dinov2Config(
        hidden_size=preset.hidden,
        num_hidden_layers=preset.layers,
        num_attention_heads=preset.heads,
        image_size=preset.edge,
        patch_size=14,
    )
    Dinov2Model(vision).save_pretrained(folder / "vision")
    processor = BitImageProcessorPil(
        image_mean=[0.5307] * 3,
        image_std=[0.2583] * 3,
        size={"shortest_edge": preset.edge},
        crop_size={"height": preset.edge, "width": preset.edge},
    )
    processor.save_pretrained(folder / "vision")
    BertConfig().save_pretrained(folder / "text")  # only a part of the recipe: there are no texts


def settings(preset: Preset) -> Features:
    depths = [preset.layers // 3, 2 * preset.layers // 3, preset.layers]
    shared = {name: getattr(preset, name) for name in ("batch_size", "shard_size", "workers")}
    fixed = {"mode": "states", "dtype": "bfloat16", "precision": "float32", "prior_tokens": 8}
    return Features.model_validate(fixed | shared | {"depths": depths})


def stage_rate(preset: Preset, meter: Meter, folder: Path, images: pl.DataFrame) -> float:
    """Return the images/s of the stage from its first whole batch, when the models are loaded, to
    its end."""
    encode, begun = ImageEncoder.encode_levels, []

    def noting(encoder: ImageEncoder, levels: Tensor) -> Tensor:
        states = encode(encoder, levels)
        if not begun and len(levels) == preset.batch_size:
            meter.wait()
            begun.append(time.perf_counter())
        return states

    with patch.object(ImageEncoder, "encode_levels", noting):
        build_store(settings(preset), images, [], folder, folder / "store")
    seconds = time.perf_counter() - begun[0]
    shutil.rmtree(folder / "store")
    return (len(images) - preset.batch_size) / seconds


def bare_rate(meter: Meter, encoder: ImageEncoder, batches: Sequence[Tensor]) -> float:
    """Return the images/s of only the encoder, on prepared batches."""

    def encode() -> None:
        for batch in batches:
            encoder.encode(batch)

    return sum(map(len, batches)) / meter.seconds(encode)


def measure(preset: Preset) -> list[str]:
    """Compare the stage with the bare encoder; return the results as Markdown."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_backbones(folder, preset)
        files = [str(folder / f"{seed}.jpg") for seed in range(preset.files)]
        for seed, path in enumerate(files):
            film(seed, (preset.film[0], preset.film[1])).save(path, quality=95)
        paths = [files[i % len(files)] for i in range(preset.images)]
        images = pl.DataFrame({"image_id": [str(i) for i in range(preset.images)], "path": paths})
        encoder = ImageEncoder(folder / "vision", settings(preset).depths, preset.device, "float32")
        preparation = encoder.preparation
        values = [preparation.values(preparation.levels(open_image(path))) for path in files]
        prepared = torch.stack(values).to(preset.device)
        places = torch.arange(preset.bare, device=preset.device) % len(files)
        batches = [prepared[part] for part in places.split(preset.batch_size)]
        encoder.encode(batches[0])  # warm up
        bare, stage, meter = [], [], Meter(preset.device)
        for _ in range(preset.repeats):
            bare.append(bare_rate(meter, encoder, batches))
            stage.append(stage_rate(preset, meter, folder, images))
    rows = [
        ["the stage, from JPG files to shards", f"{statistics.median(stage):,.2f}"],
        ["bare forward of the encoder", f"{statistics.median(bare):,.2f}"],
    ]
    return [
        f"Encoder: {preset.layers} layers of width {preset.hidden} at {preset.edge} pixels, "
        f"float32; grey JPG files of {preset.film[0]:,} x {preset.film[1]:,}; batches of "
        f"{preset.batch_size}; median of {preset.repeats} turns.",
        "",
        *table(["", "images/s"], rows),
        f"The stage over the bare forward: {ratio(stage, bare)}.",
    ]


if __name__ == "__main__":
    share_cores(1)
    run("The features stage", __doc__, measure)
