"""Preparation of real radiographs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor
from transformers import BitImageProcessorPil

from pacer.features.prepare import Preparation
from pacer.radiographs.opening import open_image

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"
#: The published configuration of microsoft/rad-dino.
RAD_DINO = {
    "crop_size": {"height": 518, "width": 518},
    "do_center_crop": True,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5307] * 3,
    "image_processor_type": "BitImageProcessor",
    "image_std": [0.2583] * 3,
    "resample": 3,
    "rescale_factor": 0.00392156862745098,
    "size": {"shortest_edge": 518},
}


def write_config(directory: Path, **changes: Any) -> Path:
    """RAD-DINO's configuration with these changes."""
    directory.mkdir(exist_ok=True)
    (directory / "preprocessor_config.json").write_text(json.dumps(RAD_DINO | changes))
    return directory


@pytest.fixture(scope="module")
def rad_dino(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_config(tmp_path_factory.mktemp("rad-dino"))


def processed(directory: Path, image: Image.Image) -> Tensor:
    """What the processor makes of the RGB image."""
    processor = BitImageProcessorPil.from_pretrained(directory)
    return processor(images=image.convert("RGB"), return_tensors="pt")["pixel_values"][0]


def assert_prepared(directory: Path, path: Path, image: Image.Image | None = None) -> Tensor:
    """The file is prepared as the processor does with ``image`` (left out: with the decoded file)."""
    found = Preparation(directory)(path)
    expected = processed(directory, image or open_image(path))
    assert found.dtype == torch.float32 and found.is_contiguous()
    assert torch.equal(found, expected)
    return found


def chosen(folder: Path, pattern: str, count: int) -> list[Path]:
    files = sorted(folder.rglob(pattern))
    return files[:: max(len(files) // count, 1)][:count]


def test_real_images(rad_dino: Path) -> None:
    if not (DATA / "openi").is_dir():
        pytest.skip(f"the real images are not at {DATA}")
    paths = chosen(DATA / "openi" / "images", "*.*", 30) + chosen(DATA / "covid" / "images", "*.jpg", 10)
    assert len(paths) == 40
    preparation = Preparation(rad_dino)
    for path in paths:
        with Image.open(path) as plain:
            assert torch.equal(preparation(path), processed(rad_dino, ImageOps.exif_transpose(plain))), path
    for path in sorted((DATA / "dicom").glob("*.dcm")):
        assert_prepared(rad_dino, path)
