"""Stand-ins for missing reports: which other record's radiograph looks most alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from pacer.core.errors import DataError
from pacer.radiographs.opening import ImageError, open_image

#: Edge of the thumbnails that are compared, in pixels.
EDGE = 32


def nearest(wanted: Sequence[str], candidates: Sequence[str], paths: Mapping[str, str]) -> list[int]:
    """For each of the ``wanted`` images the place of the nearest candidate: the highest correlation of their grey
    values, reduced to :data:`EDGE` pixels squared; the first of several.

    Args:
        wanted, candidates: image ids. paths: where each lies.

    Raises:
        DataError: an image is not among them, or cannot be opened.
    """
    seen = _thumbnails(candidates, paths)
    return [int(place) for place in np.argmax(_thumbnails(wanted, paths) @ seen.T, axis=1)]


def _thumbnails(names: Sequence[str], paths: Mapping[str, str]) -> np.ndarray:
    """``[n, EDGE²]`` of mean 0 and norm 1."""
    values = np.empty((len(names), EDGE * EDGE), dtype=np.float32)
    for row, name in enumerate(names):
        if name not in paths:
            raise DataError(f"image {name} is not in the table of images, so its nearest neighbour is not known")
        try:
            small = open_image(Path(paths[name])).convert("L").resize((EDGE, EDGE), Image.Resampling.BOX)
        except ImageError as error:
            raise DataError(f"{paths[name]} cannot be opened as an image: {error.problem}") from None
        values[row] = np.asarray(small, dtype=np.float32).ravel()
    values -= values.mean(axis=1, keepdims=True)
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-6)
