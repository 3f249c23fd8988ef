"""Maps of depth weights over a radiograph."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from pacer.core.errors import DataError
from pacer.reporting.images import weight_range
from pacer.reporting.routing import over_radiograph


def test_a_radiograph_with_its_maps_is_svg_and_png():
    weights = np.random.default_rng(0).dirichlet(np.ones(3), 16).astype(np.float32)
    svg, png = over_radiograph(Image.new("L", (90, 60), 128), weights, (4, 8, 12), "frontal")
    assert f"block 12, mean {weights[:, 2].mean():.3f}" in svg and svg.count("<image") >= 4
    image = Image.open(io.BytesIO(png))
    assert image.format == "PNG" and image.width > 3 * image.height
    assert (svg, png) == over_radiograph(Image.new("L", (90, 60), 128), weights, (4, 8, 12), "frontal")


def tiles(grey: Image.Image, weights: np.ndarray) -> list[np.ndarray]:
    """The maps of a drawing, 320 pixels wide and high."""
    png = np.asarray(Image.open(io.BytesIO(over_radiograph(grey, weights, (4, 12), "frontal")[1])).convert("RGB"))
    return [png[49:369, left : left + 320].astype(int) for left in (333, 661)]


def test_a_patch_that_prefers_a_depth_is_warm_there_and_cool_elsewhere():
    weights = np.full((4, 2), 0.5, dtype=np.float32)
    weights[0] = (0.9, 0.1)
    first, second = tiles(Image.new("L", (64, 64), 128), weights)
    corner, opposite = (30, 30), (-30, -30)
    assert first[corner][0] > first[corner][2] and second[corner][0] < second[corner][2]
    assert np.ptp(first[opposite]) < 12
    assert weight_range(weights) == pytest.approx(0.4)


def test_maps_cover_the_middle_square():
    wide = Image.new("L", (300, 100), 0)
    wide.paste(255, (100, 0, 200, 100))
    for tile in tiles(wide, np.full((4, 2), 0.5, dtype=np.float32)):
        assert tile[4:-4, 4:-4].min() > 200


def test_patches_must_form_a_square():
    with pytest.raises(DataError, match="5 patches do not form a square"):
        over_radiograph(Image.new("L", (8, 8)), np.full((5, 3), 1 / 3, dtype=np.float32), (4, 8, 12), "frontal")
