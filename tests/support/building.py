"""Feature stores built in processes of their own, for tests that kill and compare them.

As a script: ``building.py JOB...`` builds one after another and is what ``accelerate launch`` is
given.
"""

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from pacer.config import Features
from pacer.core.errors import run_cleanly
from pacer.core.io import read_json, write_json
from pacer.features.encode import build_store
from pacer.features.encoder import ImageEncoder, TextEncoder
from tests.support import drive
from tests.support.points import Points

SHARD, IMAGES = 3, 10
CONFIG = Features(
    mode="states",
    depths=[1, 3],
    dtype="bfloat16",
    precision="float32",
    batch_size=2,
    shard_size=SHARD,
    workers=1,
    prior_tokens=12,
)
TEXTS = ["no effusion .", "edema .", "no effusion .", "pneumonia .", "clear .", "stable ."]


def perform(task: dict[str, Any]) -> None:
    """Build the store of :meth:`Setting.task`."""
    points = Points(task) if task.get("stop") or task.get("watch") else None
    real = ImageEncoder.encode, TextEncoder.encode

    def encode_images(self: ImageEncoder, pixels: torch.Tensor) -> torch.Tensor:
        if points:
            points.reach("encode images")
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
            CONFIG, pl.DataFrame(task["images"]), TEXTS, Path(task["backbones"]), Path(task["out"])
        )
    finally:
        ImageEncoder.encode, TextEncoder.encode = real
    if task.get("watch"):
        write_json(task["watch"], points.passed)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def make_images(folder: Path) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    paths = [str(folder / f"{i}.png") for i in range(IMAGES)]
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (70, 64), dtype=np.uint8)).save(path)
    return pl.DataFrame({"image_id": [f"img{i}" for i in range(IMAGES)], "path": paths})


def shard_of(out: Path, image_id: str) -> Path:
    return out / pl.read_parquet(out / "images.parquet").filter(image_id=image_id)["shard"][0]


class Setting:
    """Images, a server of processes, and the store that one process makes of them without a
    break."""

    def __init__(self, folder: Path, backbones: Path, server: drive.Server):
        self.folder, self.backbones, self.server = folder, backbones, server
        self.images = make_images(folder)
        server.finish(self.task("whole", watch=str(folder / "watch.json")))
        self.points = [(point, number) for point, number in read_json(folder / "watch.json")]
        self.whole = drive.contents(folder / "whole")

    def task(self, name: str, images: pl.DataFrame | None = None, **more) -> dict:
        """A job. Its file ``encoded`` gets a line "rank images" for each batch of images.

        Args:
            more: ``stop``, ``watch``: as for :func:`drive.job`; the points are those of files and
                ``encode images``, ``encode texts`` before each batch.
        """
        return {
            "images": (self.images if images is None else images).to_dict(as_series=False),
            "backbones": str(self.backbones),
            "out": str(self.folder / name),
            "encoded": str(self.folder / f"{name}.encoded"),
            **more,
        }

    def encoded(self, name: str) -> Counter[str]:
        """Images that each process has encoded, all starts together."""
        count: Counter[str] = Counter()
        for line in (self.folder / f"{name}.encoded").read_text().splitlines():
            rank, images = line.split()
            count[rank] += int(images)
        return count

    def survive(
        self,
        points: list[tuple[str, int]],
        prefix: str,
        most: int,
        before: dict[str, bytes] | None = None,
    ) -> None:
        """Kill a process at each point and start another: what there is then is the whole store.

        Args:
            most: images that both may encode. before: files of the store that is there already.
        """
        for first in range(0, len(points), 4):
            stops = dict(zip([f"{prefix}{first + i}" for i in range(4)], points[first:]))
            for name in stops:
                for file, data in (before or {}).items():
                    (self.folder / name).mkdir(exist_ok=True)
                    (self.folder / name / file).write_bytes(data)
            killed = self.server.run(
                *[
                    self.task(name, stop={"point": point, "number": number})
                    for name, (point, number) in stops.items()
                ]
            )
            assert [code for code, _ in killed] == [drive.KILLED] * len(stops), killed
            self.server.finish(*map(self.task, stops))
            for name, point in stops.items():
                assert drive.contents(self.folder / name) == self.whole, point
                assert self.encoded(name)["0"] <= most, point
                assert not Path(f"{self.folder / name}.scratch").exists(), point

    def launch(self, *tasks: dict) -> tuple[int, str]:
        return drive.ended(
            drive.launch([*map(drive.write_job, tasks)], drive.TWO_PROCESSES, script=__file__)
        )


@pytest.fixture(scope="module")
def setting(backbones: Path, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("killed")
    with drive.Server(folder, perform) as server:
        yield Setting(folder, backbones, server)


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_cleanly(lambda: [perform(read_json(path)) for path in sys.argv[1:]])
