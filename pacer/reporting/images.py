"""Radiographs for the page: scaled down, and embedded as data URIs."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from PIL import Image

from pacer.core.errors import DataError
from pacer.data.greyscale import ImageError
from pacer.data.radiographs import open_image

#: Longest edge of an embedded radiograph, in pixels.
LONGEST_EDGE = 384


def read_grey(path: Path) -> Image.Image:
    """Return the image at ``path`` as 8-bit grey, with no edge longer than :data:`LONGEST_EDGE`.

    Raises:
        DataError: the file is missing or is not an image.
    """
    try:
        grey = open_image(path).convert("L")
    except ImageError as error:
        raise DataError(f"{path} cannot be opened as an image: {error.problem}") from None
    grey.thumbnail((LONGEST_EDGE, LONGEST_EDGE), Image.Resampling.LANCZOS)  # never enlarges
    return grey


def data_uri(image: Image.Image, form: str = "JPEG") -> str:
    """Return the image as a ``data:`` address; JPEG knows no transparency, which a PNG keeps."""
    if form == "JPEG" and image.mode != "L":
        image = image.convert("RGB")
    buffer = io.BytesIO()
    image.save(buffer, format=form, quality=85)  # PNG ignores the quality
    return f"data:image/{form.lower()};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
