"""Feature stores built in processes of their own, for tests that kill and compare them.

As a script: ``building.py JOB...`` builds one after another and is what ``accelerate launch`` is given; ``building.py
serve`` forks a process for each, as ``tests/training/drive.py`` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import torch

from pacer.core.errors import run_cleanly
from pacer.core.io import read_json, write_json
from pacer.encoding.build_store import build_store
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.params import Features
from tests.support import drive


def job(config: Features, images: pl.DataFrame, texts: list[str], backbones: Path, out: Path, **more: Any) -> dict:
    """What :func:`perform` does.

    Args:
        more: ``stop``, ``watch``: as for :func:`drive.job`; the points are those of files and ``encode images``,
            ``encode texts`` before each batch. ``encoded``: file that gets a line "rank images" for each batch of
            images.
    """
    return {
        "config": config.model_dump(),
        "images": images.to_dict(as_series=False),
        "texts": texts,
        "backbones": str(backbones),
        "out": str(out),
        **more,
    }


def perform(task: dict[str, Any]) -> None:
    points = drive.Points(task) if task.get("stop") or task.get("watch") else None
    real = ImageEncoder.encode, TextEncoder.encode

    def encode_images(self: ImageEncoder, pixels: torch.Tensor) -> torch.Tensor:
        if points:
            points.reach("encode images")
        if task.get("encoded"):
            with open(task["encoded"], "a") as file:
                file.write(f"{os.environ.get('RANK', 0)} {len(pixels)}\n")
        return real[0](self, pixels)

    def encode_texts(self: TextEncoder, texts: list[str]) -> Any:
        if points:
            points.reach("encode texts")
        return real[1](self, texts)

    ImageEncoder.encode, TextEncoder.encode = encode_images, encode_texts
    try:
        build_store(
            Features(**task["config"]),
            pl.DataFrame(task["images"]),
            task["texts"],
            Path(task["backbones"]),
            Path(task["out"]),
        )
    finally:
        ImageEncoder.encode, TextEncoder.encode = real
    if task.get("watch"):
        write_json(task["watch"], points.passed)


class Server(drive.Server):
    """:class:`drive.Server` for these jobs."""

    def __enter__(self) -> Server:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "serve"],
            stdin=subprocess.PIPE,
            text=True,
            stdout=subprocess.PIPE,
            env=drive.environment(),
        )
        return self


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "serve":
        drive.perform = perform
        drive.serve()
    else:
        run_cleanly(lambda: [perform(read_json(path)) for path in sys.argv[1:]])
