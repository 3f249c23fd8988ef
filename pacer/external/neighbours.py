"""Missing reports that are taken from another record: the one whose radiograph looks most alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from pacer.core.errors import DataError
from pacer.radiographs.opening import ImageError, open_image

#: Edge of the thumbnails that are compared, in pixels.
EDGE = 32


def nearest(
    images: Sequence[str], groups: Sequence[str | None], there: Sequence[bool], paths: Mapping[str, str]
) -> dict[int, int]:
    """Row that is not ``there`` -> the row of its group that is, with the highest correlation of grey values at
    :data:`EDGE` pixels squared; the first of several.

    Args:
        images: image id of each row. paths: where the images lie.

    Raises:
        DataError: an image is not among them or cannot be opened, or a group has no row that is there.
    """
    values = np.empty((len(images), EDGE * EDGE), dtype=np.float32)
    for row, name in enumerate(images):
        if name not in paths:
            raise DataError(f"image {name} is not in the table of images, so its nearest neighbour is not known")
        try:
            small = open_image(Path(paths[name])).convert("L").resize((EDGE, EDGE), Image.Resampling.BOX)
        except ImageError as error:
            raise DataError(f"{paths[name]} cannot be opened as an image: {error.problem}") from None
        values[row] = np.asarray(small, dtype=np.float32).ravel()
    values -= values.mean(axis=1, keepdims=True)
    values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-6)
    found = {}
    for row in np.flatnonzero(~np.asarray(there)).tolist():
        usable = [other for other, group in enumerate(groups) if there[other] and group == groups[row]]
        if not usable:
            raise DataError(
                "no record has a report that could stand for a missing one; bring some, or leave them empty"
            )
        found[row] = usable[int(np.argmax(values[usable] @ values[row]))]
    return found
