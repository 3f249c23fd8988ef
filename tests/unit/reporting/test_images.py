"""Pictures of a page: radiographs, maps of depth weights that are laid over them, and charts."""

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pacer.core.errors import DataError
from pacer.reporting import charts
from pacer.reporting.html import LONGEST_EDGE, data_uri, read_grey, routing_overlay, square_overlay


def picture(address: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))).astype(int)


def test_radiographs_are_grey_and_reduced_and_a_missing_one_is_named(tmp_path: Path):
    Image.linear_gradient("L").resize((1000, 500)).convert("RGB").save(tmp_path / "wide.png")
    assert read_grey(tmp_path / "wide.png").size == (LONGEST_EDGE, LONGEST_EDGE // 2)
    assert read_grey(tmp_path / "wide.png").mode == "L"
    with pytest.raises(DataError, match=r"absent\.jpg cannot be opened as an image"):
        read_grey(tmp_path / "absent.jpg")


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P"])
def test_addresses_hold_the_image(mode: str):
    address = data_uri(Image.new("L", (8, 6), 200).convert(mode))
    assert address.startswith("data:image/jpeg;base64,")
    assert picture(address).shape[:2] == (6, 8) and np.abs(picture(address) - 200).max() <= 2


def test_a_map_is_warm_where_a_patch_takes_more_of_a_depth_and_clear_at_the_even_share():
    weights = np.full((2, 4, 2), 0.5, np.float32)
    weights[0, 3], weights[1, 0] = (0.9, 0.1), (0.2, 0.8)
    overlay = routing_overlay("frontal", Image.new("L", (56, 28)), weights, (3, 6))
    assert [(one.depth, round(one.mean, 4)) for one in overlay.maps] == [(3, 0.5125), (6, 0.4875)]
    assert overlay.even == 0.5 and overlay.farthest == pytest.approx(0.4) and picture(overlay.address).shape == (28, 56)
    first, second = (picture(one.address) for one in overlay.maps)
    assert first.shape == (2, 4, 4)  # a pixel a patch
    top_right, bottom_left, middle = (0, 3), (1, 0), (0, 1)
    assert first[top_right][0] > first[top_right][2] and second[top_right][2] > second[top_right][0]
    assert first[bottom_left][2] > first[bottom_left][0]
    assert first[top_right][3] > first[bottom_left][3] > first[middle][3] == 0
    even = routing_overlay("frontal", Image.new("L", (8, 8)), np.full((2, 4, 2), 0.5, np.float32), (3, 6))
    assert even.farthest == 1e-3 and not any(picture(one.address)[..., 3].any() for one in even.maps)


def test_the_patch_grid_spans_the_middle_square():
    wide = Image.new("L", (300, 100), 0)
    wide.paste(255, (100, 0, 200, 100))
    weights = np.full((4, 2), 0.5, dtype=np.float32)
    weights[1] = (0.9, 0.1)
    overlay = square_overlay("frontal", wide, weights, (4, 12))
    shown = picture(overlay.address)
    assert shown.shape == (100, 100) and shown.min() > 200
    assert picture(overlay.maps[0].address)[..., 3].tolist() == [[0, 153], [0, 0]]  # patches in rows


def test_charts_have_the_colours_of_the_page():
    style = Path(charts.__file__).with_name("figures.mplstyle").read_text()
    assert {f"#{colour}" for colour in re.findall(r"\b[0-9a-f]{6}\b", style)} <= set(charts.LIGHT.values())
