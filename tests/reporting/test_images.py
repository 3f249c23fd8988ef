"""Radiographs and routing maps as the page embeds them."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pacer.core.errors import DataError
from pacer.reporting.images import LONGEST_EDGE, data_uri, overlays, read_grey, weight_range


def test_large_images_are_reduced_and_16_bit_ones_survive(tmp_path: Path):
    Image.linear_gradient("L").resize((1000, 500)).convert("RGB").save(tmp_path / "wide.png")
    assert read_grey(tmp_path / "wide.png").size == (LONGEST_EDGE, LONGEST_EDGE // 2)


def test_a_missing_image_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"absent\.jpg cannot be opened as an image"):
        read_grey(tmp_path / "absent.jpg")


def test_data_uris_decode_to_the_image():
    uri = data_uri(Image.new("L", (8, 6), 200))
    image = Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/jpeg;base64,"))))
    assert image.size == (8, 6) and abs(image.getpixel((4, 3)) - 200) <= 2


def test_a_patch_that_prefers_a_depth_is_warm_there_and_cool_elsewhere():
    weights = np.full((4, 2), 0.5, dtype=np.float32)
    weights[0] = (0.9, 0.1)
    first, second = (np.asarray(image).astype(int) for image in overlays(Image.new("L", (64, 64), 128), weights))
    corner, opposite = (8, 8), (-8, -8)
    assert first[corner][0] > first[corner][2] and second[corner][0] < second[corner][2]
    assert np.ptp(first[opposite]) < 12
    assert weight_range(weights) == pytest.approx(0.4)


def test_maps_cover_the_middle_square():
    wide = Image.new("L", (300, 100), 0)
    wide.paste(255, (100, 0, 200, 100))
    maps = overlays(wide, np.full((4, 2), 0.5, dtype=np.float32))
    assert all(image.width == image.height and np.asarray(image).min() > 200 for image in maps)


def test_patches_must_form_a_square():
    with pytest.raises(DataError, match="5 patches do not form a square"):
        overlays(Image.new("L", (8, 8)), np.full((5, 3), 1 / 3, dtype=np.float32))
