"""Self-contained pages from ``templates/``, and the radiographs in them: scaled down, with
transparent maps of depth weights."""

import base64
import io
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from pacer.core.errors import DataError
from pacer.images.greyscale import ImageError
from pacer.images.radiographs import open_image

TEMPLATES = Path(__file__).parent / "templates"
#: Longest edge of an embedded radiograph, in pixels.
LONGEST_EDGE = 384


def render(template: str, folder: Path = TEMPLATES, **content: Any) -> str:
    """Fill a template of ``folder`` or of this package. Values that are not markup are escaped; a
    missing value is an error."""
    return _environment(folder).get_template(template).render(**content)


@cache
def _environment(folder: Path) -> Environment:
    return Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def read_grey(path: Path) -> Image.Image:
    """Return an image as 8-bit grey, no edge longer than :data:`LONGEST_EDGE`. Raises a DataError
    if it is not an image."""
    try:
        grey = open_image(path).convert("L")
    except ImageError as error:
        raise DataError(f"{path} cannot be opened as an image: {error.problem}") from None
    grey.thumbnail((LONGEST_EDGE, LONGEST_EDGE), Image.Resampling.LANCZOS)  # never enlarges
    return grey


def data_uri(image: Image.Image, form: str = "JPEG") -> str:
    """Return the image as a ``data:`` address; PNG keeps transparency, JPEG does not."""
    if form == "JPEG" and image.mode != "L":
        image = image.convert("RGB")
    buffer = io.BytesIO()
    image.save(buffer, format=form, quality=85)  # PNG ignores the quality
    return f"data:image/{form.lower()};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


class DepthMap(NamedTuple):
    """The map of one depth."""

    #: The encoder block, counted from 1.
    depth: int
    #: Its mean weight.
    mean: float
    #: The address of the map.
    address: str


class RoutingOverlay(NamedTuple):
    """The encoder's input image, and a map per depth."""

    #: The address of the image.
    address: str
    maps: tuple[DepthMap, ...]
    #: Each depth's weight in an even mixture.
    even: float
    #: The deviation from it that gets the strongest colour.
    farthest: float


def routing_overlay(
    image: Image.Image, weights: np.ndarray, depths: Sequence[int]
) -> RoutingOverlay:
    """Return maps of weights ``[rows, columns, K]``, which sum to 1 over K, of the K encoder blocks
    ``depths``: warm where a patch takes more than the even share of a depth, cool where less, and
    transparent at the even share. The largest deviation in the image has the strongest colour. A
    map has one pixel per patch, because a smooth map would suggest detail that the router does not
    have. Addresses are ``data:`` addresses: no file is written."""
    even = 1 / weights.shape[2]
    farthest = max(float(np.abs(weights - even).max()), 1e-3)
    relative = (weights - even) / farthest
    maps = tuple(
        DepthMap(depth, float(weights[:, :, place].mean()), _address(relative[:, :, place]))
        for place, depth in enumerate(depths)
    )
    return RoutingOverlay(data_uri(image), maps, even, farthest)


def square_overlay(
    image: Image.Image, weights: np.ndarray, depths: Sequence[int]
) -> RoutingOverlay:
    """Return the same for the middle square of a radiograph, from weights ``[N, K]``, where N is a
    square grid in row-major order: this family's image processors scale the shorter edge and crop
    to that square, which the patch grid covers."""
    side = math.isqrt(len(weights))
    edge = min(image.size)
    left = (image.width - edge) // 2
    top = (image.height - edge) // 2
    square = image.crop((left, top, left + edge, top + edge))
    return routing_overlay(square, weights.reshape(side, side, -1), depths)


def _address(relative: np.ndarray) -> str:
    """Return values ``[rows, columns]`` from -1 to 1 as the address of a PNG."""
    pixels = matplotlib.colormaps["RdBu_r"](0.5 + 0.4 * relative, bytes=True)
    pixels[..., 3] = np.round(255 * 0.6 * np.abs(relative))  # opacity: 0.6 for the strongest colour
    return data_uri(Image.fromarray(pixels), "PNG")
