"""Preparation of real radiographs."""

from pathlib import Path

import torch
from PIL import Image, ImageOps

from pacer.features.prepare import Preparation
from tests.integration.features.test_prepare import assert_prepared, processed, rad_dino
from tests.support.real import DATA, real

__all__ = ["rad_dino"]


def chosen(folder: Path, pattern: str, count: int) -> list[Path]:
    files = sorted(folder.rglob(pattern))
    return files[:: max(len(files) // count, 1)][:count]


def test_real_images(rad_dino: Path) -> None:
    paths = chosen(real("openi/images"), "*.*", 30) + chosen(DATA / "covid" / "images", "*.jpg", 10)
    assert len(paths) == 40
    preparation = Preparation(rad_dino)
    for path in paths:
        with Image.open(path) as plain:
            assert torch.equal(preparation(path), processed(rad_dino, ImageOps.exif_transpose(plain))), path
    for path in sorted((DATA / "dicom").glob("*.dcm")):
        assert_prepared(rad_dino, path)
