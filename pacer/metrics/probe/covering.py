"""Where findings are, control regions of the same size elsewhere, and pictures in which either is covered.

A box has its upper left corner, width and height in shares of the image.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from PIL import Image

from pacer.commitments.anchor import FINDINGS, normalize_finding
from pacer.core.errors import DataError
from pacer.data.schemas import TRUTH_SCHEMA, read_table
from pacer.data.tables import open_table

#: What the thorax fills of a radiograph, and how far a box may reach across the midline of a frontal one.
_THORAX, _ACROSS = (0.08, 0.92), 0.06
#: Step of the search for a control region, and width of the ring around a covered box, in shares of the image.
_STEP, _RING = 0.02, 0.04


class Box(NamedTuple):
    """A region of an image."""

    x: float
    y: float
    width: float
    height: float


#: Boxes by image id and finding.
Boxes = dict[str, dict[str, list[Box]]]


def boxes_of_truth(truth: Path, records: pl.DataFrame) -> Boxes:
    """Return the boxes of a generated corpus for the images of its records."""
    table = read_table(truth, TRUTH_SCHEMA, ["study_id", "boxes"])
    boxes = table.explode("boxes").drop_nulls("boxes").unnest("boxes")
    images = records.select("study_id", "frontal", "lateral").unpivot(
        index="study_id", variable_name="view", value_name="image"
    )
    named = boxes.join(images.drop_nulls("image").unique(), on=["study_id", "view"], maintain_order="left")
    return _by_image(named.select("image", "finding", *Box._fields))


def read_boxes(path: Path, images: set[str]) -> Boxes:
    """Read a table of boxes: ``image`` (an id of ``images``, others are of no record), ``finding``, ``x``, ``y``,
    ``width`` and ``height``.

    Raises:
        DataError: a column is missing; a finding is unknown; a number is none, or no share of the image; no box is on
            one of the images.
    """
    names = ("image", "finding", *Box._fields)
    file = open_table(path)
    if missing := [name for name in names if name not in file.columns]:
        raise DataError(f"{path} has no column {missing[0]}; a table of bounding boxes needs {', '.join(names)}")
    table = file.frame(names)
    boxes = table.with_columns(pl.col(Box._fields).cast(pl.Float64, strict=False))
    inside = pl.all_horizontal(
        *(pl.col(start) >= 0 for start in ("x", "y")),
        *(pl.col(size) > 0 for size in ("width", "height")),
        pl.col("x") + pl.col("width") <= 1.001,
        pl.col("y") + pl.col("height") <= 1.001,
    ).fill_null(False)
    for place, finding, good in zip(file.places, table["finding"], boxes.select(inside).to_series(), strict=True):
        if finding is None or normalize_finding(finding) is None:
            raise DataError(f"{path}, {place}: {finding!r:.40} is not a finding; choose from {', '.join(FINDINGS)}")
        if not good:
            raise DataError(
                f"{path}, {place}: x, y, width and height must be fractions of the image, with the box inside it; "
                "divide pixel coordinates by the image's width and height"
            )
    findings = [normalize_finding(finding) for finding in table["finding"]]
    known = boxes.with_columns(pl.Series("finding", findings, pl.String)).filter(pl.col("image").is_in(images))
    if known.is_empty():
        raise DataError(f"{path}: no box matches an image in the records; `image` must be an id, e.g. {min(images)}")
    return _by_image(known)


def _by_image(rows: pl.DataFrame) -> Boxes:
    boxes: Boxes = {}
    for image, finding, *edges in rows.iter_rows():
        boxes.setdefault(image, {}).setdefault(finding, []).append(Box(*edges))
    return boxes


def control_region(boxes: list[Box], others: list[Box], *, frontal: bool) -> list[Box] | None:
    """Return a region of the same shape that has nothing of the finding's ``boxes``: their mirror image if no finding
    is there (``others``: boxes of the image's other findings), else the region in the thorax that has least of other
    findings, the nearest to the mirror image. None if there is none, or if on a frontal view the finding lies on both
    sides or in the middle.
    """
    places = np.array(boxes)
    left, right = places[:, 0], places[:, 0] + places[:, 2]
    if frontal and left.min() < 0.5 - _ACROSS and right.max() > 0.5 + _ACROSS:
        return None
    mirrored = np.array([1 - right, places[:, 1], places[:, 2], places[:, 3]]).T
    steps = np.arange(-1, 1 + _STEP / 2, _STEP)
    shifts = np.array(np.meshgrid(steps, steps)).reshape(2, -1).T
    shifts = shifts[np.argsort(np.square(shifts).sum(axis=1), kind="stable")]
    starts = mirrored[None, :, :2] + shifts[:, None]
    ends = starts + mirrored[None, :, 2:]
    least, most = mirrored[:, :2].min(axis=0), (mirrored[:, :2] + mirrored[:, 2:]).max(axis=0)
    inside = (starts >= np.minimum(least, _THORAX[0]) - 1e-9) & (ends <= np.maximum(most, _THORAX[1]) + 1e-9)
    free = inside.all(axis=(1, 2)) & (_overlap(starts, ends, places) < 1e-9)
    if not free.any():
        return None
    taken = _overlap(starts, ends, np.array(others)) if others else np.zeros(len(starts))
    best = int(np.argmin(np.where(free, taken, np.inf)))
    return [Box(*map(float, (*start, *size))) for start, size in zip(starts[best], mirrored[:, 2:], strict=True)]


def _overlap(starts: np.ndarray, ends: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Return the area that regions share with boxes ``[m, 4]``; starts and ends ``[n, k, 2]`` -> ``[n]``."""
    low = np.maximum(starts[:, :, None], boxes[:, :2])
    high = np.minimum(ends[:, :, None], boxes[:, :2] + boxes[:, 2:])
    return np.clip(high - low, 0, None).prod(axis=-1).sum(axis=(1, 2))


def covered(image: Image.Image, boxes: list[Box]) -> Image.Image:
    """Return a grey image in which each box has the mean grey of the ring around it, with a soft edge."""
    pixels = np.array(image.convert("L"), dtype=float)
    height, width = pixels.shape
    reach = max(2.0, _RING * max(height, width))
    down, across = np.arange(height)[:, None] + 0.5, np.arange(width)[None] + 0.5
    for box in boxes:
        left, top = box.x * width, box.y * height
        right, bottom = left + box.width * width, top + box.height * height
        rows = slice(max(0, int(top - reach)), int(bottom + reach) + 1)
        columns = slice(max(0, int(left - reach)), int(right + reach) + 1)
        beside = np.maximum(left - across[:, columns], across[:, columns] - right)
        distance = np.maximum(beside, np.maximum(top - down[rows], down[rows] - bottom))
        ring, share = (distance > 0) & (distance <= reach), np.clip(1 - distance / reach, 0, 1)
        part = pixels[rows, columns]
        if ring.any():
            pixels[rows, columns] = share * part[ring].mean() + (1 - share) * part
    return Image.fromarray(np.rint(pixels).astype(np.uint8))
