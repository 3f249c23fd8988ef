"""Radiographs for the page: reduced, embedded as data URIs, with depth-routing maps drawn over them."""

from __future__ import annotations

import base64
import io
import math
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image

from pacer.core.errors import DataError
from pacer.radiographs.opening import ImageError, open_image

#: Longest edge of an embedded radiograph, in pixels.
LONGEST_EDGE = 384
#: Edge of a routing overlay, in pixels.
OVERLAY_EDGE = 192


def read_grey(path: Path, edge: int = LONGEST_EDGE) -> Image.Image:
    """The image at ``path`` as 8-bit grey, no edge longer than ``edge``.

    Raises:
        DataError: the file is missing or is not an image.
    """
    try:
        grey = open_image(path).convert("L")
    except ImageError as error:
        raise DataError(f"{path} cannot be opened as an image: {error.problem}") from None
    if max(grey.size) > edge:
        grey.thumbnail((edge, edge), Image.Resampling.LANCZOS)
    return grey


def data_uri(image: Image.Image) -> str:
    """The image as a JPEG ``data:`` address."""
    buffer = io.BytesIO()
    image.convert("RGB" if image.mode != "L" else "L").save(buffer, format="JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def weight_range(weights: np.ndarray) -> float:
    """The largest distance of a depth weight from the even mixture, over patches and depths; at least 0.001.

    Args:
        weights: ``[N, K]``, rows sum to 1.
    """
    return max(float(np.abs(weights - 1 / weights.shape[1]).max()), 1e-3)


def overlays(grey: Image.Image, weights: np.ndarray) -> list[Image.Image]:
    """One map per depth over a radiograph: warm where the patch takes more of it than the even share, cool where less.

    Image processors of this family scale the shorter edge and keep the middle square; the patch grid spans that square.

    Args:
        grey: the radiograph.
        weights: ``[N, K]`` depth weights of the patches, N a square grid in row-major order.

    Raises:
        DataError: N is not a square.
    """
    depths = weights.shape[1]
    edge = min(grey.size)
    left, top = (grey.width - edge) // 2, (grey.height - edge) // 2
    base = grey.crop((left, top, left + edge, top + edge)).resize(
        (OVERLAY_EDGE, OVERLAY_EDGE), Image.Resampling.BICUBIC
    )
    background = np.asarray(base, dtype=np.float32)[..., None].repeat(3, axis=-1)
    colours = matplotlib.colormaps["RdBu_r"]
    limit = weight_range(weights)
    maps = []
    for depth in range(depths):
        relative = (grid(weights[:, depth]) - 1 / depths) / limit
        # patches keep their edges: a smooth map would show detail that the router does not have
        patch_map = Image.fromarray(relative.astype(np.float32)).resize(base.size, Image.Resampling.NEAREST)
        values = np.asarray(patch_map).clip(-1, 1)
        tint = np.asarray(colours((values + 1) / 2))[..., :3] * 255
        strength = 0.2 + 0.4 * np.abs(values)[..., None]
        maps.append(Image.fromarray((background * (1 - strength) + tint * strength).round().astype(np.uint8)))
    return maps


def grid(values: np.ndarray) -> np.ndarray:
    """Values of the patches ``[N]`` in their places ``[side, side]``.

    Raises:
        DataError: N is not a square.
    """
    side = math.isqrt(len(values))
    if side * side != len(values):
        raise DataError(f"depth weights of {len(values)} patches do not form a square grid")
    return values.reshape(side, side)
