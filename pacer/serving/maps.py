"""Depth-routing maps as transparent pictures that a page lays over the radiograph."""

from __future__ import annotations

import base64
import io
from typing import NamedTuple

import matplotlib
import numpy as np
from PIL import Image

from pacer.reporting.images import data_uri, weight_range
from pacer.serving.case import Routing

#: Edge of a map in pixels; the page scales it.
EDGE = 256
#: How much of the radiograph the strongest colour hides.
_STRONGEST = 0.5
#: Weights that differ by less from patch to patch make no map that one can see.
_UNIFORM = 0.01


class DepthMap(NamedTuple):
    """One depth: encoder block, its mean weight, and the address of its map."""

    depth: int
    mean: float
    address: str


class RoutingOverlay(NamedTuple):
    """A radiograph as the encoder saw it, with a map per depth.

    ``even``: the weight that every depth has in an even mixture; ``limit``: the weight farthest from it lies so far
    away, and has the strongest colour. ``uniform``: no depth has weights that differ much from patch to patch.
    """

    name: str
    address: str
    maps: tuple[DepthMap, ...]
    even: float
    limit: float
    uniform: bool


def routing_overlay(name: str, routing: Routing) -> RoutingOverlay:
    """Addresses are ``data:`` addresses: nothing is written."""
    depths = len(routing.depths)
    limit = weight_range(routing.weights.reshape(-1, depths))
    relative = (routing.weights - 1 / depths) / limit
    maps = tuple(
        DepthMap(depth, mean, _address(relative[:, :, place]))
        for place, (depth, mean) in enumerate(routing.means().items())
    )
    return RoutingOverlay(
        name,
        data_uri(Image.fromarray(routing.image)),
        maps,
        1 / depths,
        limit,
        bool(np.ptp(routing.weights, axis=(0, 1)).max() < _UNIFORM),
    )


def _address(relative: np.ndarray) -> str:
    """Warm above 0, cool below, and clear at 0; values [rows, columns] from -1 to 1."""
    smooth = Image.fromarray(relative.astype(np.float32)).resize((EDGE, EDGE), Image.Resampling.BICUBIC)
    values = np.asarray(smooth).clip(-1, 1)
    pixels = matplotlib.colormaps["RdBu_r"](0.5 + 0.4 * values, bytes=True)
    pixels[..., 3] = np.round(255 * _STRONGEST * np.abs(values))
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
