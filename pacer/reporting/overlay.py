"""Depth routing as transparent maps that a page lays over the radiograph (``depth_tiles`` and
``depth_slider`` in ``templates/macros.html``)."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from PIL import Image

from pacer.core.errors import DataError
from pacer.reporting.images import data_uri

#: How much of the radiograph the strongest colour hides.
_STRONGEST = 0.6


class DepthMap(NamedTuple):
    """One depth: encoder block, its mean weight, and the address of its map."""

    depth: int
    mean: float
    address: str


class RoutingOverlay(NamedTuple):
    """A radiograph as the encoder saw it, and a map per depth; ``even``: each depth's weight in an even mixture;
    ``farthest``: how far from it a weight with the strongest colour is."""

    name: str
    address: str
    maps: tuple[DepthMap, ...]
    even: float
    farthest: float


def routing_overlay(name: str, image: Image.Image, weights: np.ndarray, depths: Sequence[int]) -> RoutingOverlay:
    """Maps that are warm where a patch takes more of a depth than the even share, cool where less, and clear at it; the
    weight of the image that is farthest from the even share has the strongest colour.

    A map has one pixel a patch: a smooth one would show detail that the router does not have. Addresses are ``data:``
    addresses: nothing is written.

    Args:
        image: what the patches cover. weights: ``[rows, columns, K]``, sums of 1 over K. depths: the K encoder blocks.
    """
    even = 1 / weights.shape[2]
    farthest = max(float(np.abs(weights - even).max()), 1e-3)
    relative = (weights - even) / farthest
    maps = tuple(
        DepthMap(depth, float(weights[:, :, place].mean()), _address(relative[:, :, place]))
        for place, depth in enumerate(depths)
    )
    return RoutingOverlay(name, data_uri(image), maps, even, farthest)


def square_overlay(name: str, image: Image.Image, weights: np.ndarray, depths: Sequence[int]) -> RoutingOverlay:
    """The same over the middle square of a radiograph: image processors of this family scale the shorter edge and keep
    that square, and the patch grid spans it.

    Args:
        weights: ``[N, K]``, N a square grid in row-major order.

    Raises:
        DataError: N is not a square.
    """
    side, edge = math.isqrt(len(weights)), min(image.size)
    if side * side != len(weights):
        raise DataError(f"depth weights of {len(weights)} patches do not form a square grid")
    left, top = (image.width - edge) // 2, (image.height - edge) // 2
    square = image.crop((left, top, left + edge, top + edge))
    return routing_overlay(name, square, weights.reshape(side, side, -1), depths)


def _address(relative: np.ndarray) -> str:
    """Values ``[rows, columns]`` from -1 to 1 as a PNG."""
    pixels = matplotlib.colormaps["RdBu_r"](0.5 + 0.4 * relative, bytes=True)
    pixels[..., 3] = np.round(255 * _STRONGEST * np.abs(relative))
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
