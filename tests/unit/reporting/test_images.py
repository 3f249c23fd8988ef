"""Radiographs and routing maps as the page embeds them."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
from PIL import Image

from pacer.core.errors import DataError
from pacer.reporting.images import LONGEST_EDGE, data_uri, read_grey


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
