"""Milliseconds to prepare an image for the encoder, beside its own image processor; that both agree is asserted first.

    python bench/preparation.py [--images 48] [--repeats 5] [--data ../shared/data] [--vision DIRECTORY]

Both sides start from files in the page cache and end with [3, 518, 518] float32. One thread, and its own time: waiting
for a core that other work holds is no part of it. The processor gets the RGB image, as its authors use it. The sides
take turns image by image: medians, and the range of the ratios of the turns. Without ``--vision`` the settings are
RAD-DINO's. Real images are left out where they are not. Results are printed as Markdown. Files with one grey channel,
as MIMIC-CXR-JPG's are, have a bar; where it is missed, the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import Unequal, hardware, in_turns, milliseconds, ratio, table
from PIL import Image
from torch import Tensor
from transformers import AutoImageProcessor, BitImageProcessorPil

from pacer.features.prepare import Preparation
from pacer.radiographs.opening import open_image

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 3000, 2500
#: Times faster that files with one channel have to be.
BAR = 2.5
ONE_CHANNEL = ("Open-I, 256 × 256, grey", f"synthetic JPG, {WIDTH:,} × {HEIGHT:,}, grey")


def film(seed: int, channels: int) -> Image.Image:
    """Soft shapes and grain: mode "L", or "RGB" with channels that differ.

    As a grey JPG of quality 95 it has 1.5 MB, the mean of MIMIC-CXR-JPG's 377,110 images (558 GB).
    """
    rng = np.random.default_rng(seed)
    planes = []
    for _ in range(channels):
        shapes = Image.fromarray(rng.integers(0, 256, (10, 12), dtype=np.uint8)).resize((WIDTH, HEIGHT), 3)
        grain = rng.normal(0, 1.9, (HEIGHT, WIDTH))
        planes.append((np.asarray(shapes) + grain).clip(0, 255).astype(np.uint8))
    return Image.fromarray(planes[0] if channels == 1 else np.stack(planes, axis=-1))


def write_films(folder: Path, count: int = 3) -> dict[str, list[Path]]:
    """Synthetic JPG files of three kinds."""
    kinds = {ONE_CHANNEL[1]: (1, "L"), "the same in three channels": (1, "RGB"), "the same size, colour": (3, "RGB")}
    found: dict[str, list[Path]] = {}
    for kind, (name, (channels, mode)) in enumerate(kinds.items()):
        found[name] = [folder / f"{kind}-{seed}.jpg" for seed in range(count)]
        for seed, path in enumerate(found[name]):
            film(seed, channels).convert(mode).save(path, quality=95)
    return found


def real_files(data: Path, count: int) -> dict[str, list[Path]]:
    """``count`` files of each real corpus that is there, spread over its folder."""
    found = {}
    for name, folder in ((ONE_CHANNEL[0], data / "openi"), ("covid, of many sizes", data / "covid")):
        paths = sorted(path for path in (folder / "images").rglob("*") if path.is_file())
        if paths:
            found[name] = paths[:: max(len(paths) // count, 1)][:count]
        else:
            print(f"left out: {name}, which is not at {folder}", file=sys.stderr)
    return found


def by_processor(processor: Any, path: Path) -> Tensor:
    return processor(images=open_image(path).convert("RGB"), return_tensors="pt")["pixel_values"][0]


def seconds(prepare: Callable[[Path], Tensor], path: Path) -> float:
    started = time.thread_time()
    prepare(path)
    return time.thread_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=48, help="real images of each corpus")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--vision", type=Path, help="directory of an encoder and its processor")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        vision = arguments.vision or Path(temporary)
        if not arguments.vision:
            BitImageProcessorPil(
                size={"shortest_edge": 518},
                crop_size={"height": 518, "width": 518},
                image_mean=[0.5307] * 3,
                image_std=[0.2583] * 3,
            ).save_pretrained(temporary)
        ours, theirs = (
            Preparation(vision),
            partial(by_processor, AutoImageProcessor.from_pretrained(vision, backend="pil")),
        )
        rows, slow = [], []
        for name, paths in (real_files(arguments.data, arguments.images) | write_films(Path(temporary))).items():
            for path in paths:
                if not torch.equal(ours(path), theirs(path)):
                    raise Unequal(f"{path}: its values are not the processor's")
            sides = [partial(seconds, ours), partial(seconds, theirs)]
            own, known = in_turns(sides, [[path] * 2 for path in paths], arguments.repeats)
            faster, told = ratio(known, own)
            slow += [name] if name in ONE_CHANNEL and faster < BAR else []
            count = len(paths)
            rows.append([name, str(count), milliseconds(own, count), milliseconds(known, count), told])
    print(f"{hardware(torch.device('cpu'))}. Before the timing both sides had the same bits on every image.\n")
    print("\n".join(table(["", "images", "ms", "processor, ms", "times faster"], rows)))
    if slow:
        sys.exit(f"missed: at least {BAR} times faster on {'; '.join(slow)}")


if __name__ == "__main__":
    main()
