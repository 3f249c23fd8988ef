"""Rendering of an examination's radiographs: drawing, printing, masks of the findings, image files,
labelled training images.

Objects on the body use body coordinates; the print uses detector coordinates. In both, x runs to
the right and y downwards, from -1 to 1.
"""

import math
import multiprocessing
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image
from scipy import ndimage

from pacer.core.findings import FINDINGS
from pacer.core.io import hash_json
from pacer.core.progress import Ticker
from pacer.phantom import findings
from pacer.phantom.anatomy import Exposure
from pacer.phantom.canvas import Array, Canvas, bump, ramp
from pacer.phantom.frontal import Frontal
from pacer.phantom.lateral import Lateral
from pacer.phantom.world import PhantomStudy, make_world

View = Literal["frontal", "lateral"]
VIEWS: tuple[View, ...] = ("frontal", "lateral")
#: Number of rendering processes.
_PROCESSES = 2

#: A cell counts as full if a finding covers this share of it, because small findings may straddle
#: cells.
FULL_SHARE = 0.4
#: Share of a pixel that a finding must cover for the pixel to lie in one of its boxes.
_EDGE = 0.2
#: Side markers as polylines.
_GLYPHS = {
    "L": [(0.0, 0.0), (0.0, 0.12), (0.08, 0.12)],
    "R": [(0.0, 0.12), (0.0, 0.0), (0.07, 0.01), (0.07, 0.05), (0.0, 0.06), (0.08, 0.12)],
}


def visible_findings(study: PhantomStudy, view: View) -> set[str]:
    """Return the findings that ``view`` shows.

    The frontal view does not show lateral-only findings, and the lateral view does not show
    pneumothorax and rib fractures; neither shows findings that only the previous report mentions.
    """
    hidden = study.prior_only
    if view == "frontal":
        hidden |= study.lateral_only
    else:
        hidden |= {
            name
            for name, state in study.findings.items()
            if name == "pneumothorax" or state.kind == "rib"
        }
    return study.findings.keys() - hidden


def render(study: PhantomStudy, size: int, view: View) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return a radiograph, uint8 [size, size], and the region of each visible finding, float32
    [size, size]. The patient's right is on the left of a frontal view; on a lateral one, the
    patient faces left."""
    drawing: Canvas
    if view == "frontal":
        drawing, exposure = Frontal(study, size), study.exposure
    else:
        drawing, exposure = Lateral(study, size), study.lateral_exposure
    visible = visible_findings(study, view)
    for name, state in study.findings.items():
        paint = getattr(findings, name.replace(" ", "_"), None)
        if paint is not None and name in visible:
            paint(drawing, state)
    _add_objects(drawing, exposure)
    return _expose(drawing.picture(), exposure, drawing.rng), drawing.regions


def render_with_masks(
    study: PhantomStudy, size: int, view: View, grid: int
) -> tuple[np.ndarray, np.ndarray]:
    """Render one radiograph, uint8 [size, size], and the coverage of every grid cell by each
    finding, float32 [13, grid, grid].

    0 means no coverage, 1 means FULL_SHARE of the cell or more. Findings follow the order of
    FINDINGS; those absent, or not visible in ``view``, are zero. Thin lines include a margin around
    them; cardiomegaly, edema and an enlarged mediastinum cover the region that they occupy.
    ``grid`` divides ``size``.
    """
    image, regions = render(study, size, view)
    masks = np.zeros((len(FINDINGS), grid, grid), dtype=np.float32)
    cell = size // grid
    for finding, region in regions.items():
        share = region.reshape(grid, cell, grid, cell).mean(axis=(1, 3))
        masks[FINDINGS.index(finding)] = np.minimum(share * np.float32(1.0 / FULL_SHARE), 1.0)
    return image, masks


def image_path(study: PhantomStudy, name: str) -> str:
    """Return the path of a radiograph (``name``: its view) below the image folder, in
    MIMIC-CXR-JPG's layout."""
    name = hash_json([study.subject_id, study.study_id, name])
    name = "-".join(name[start : start + 8] for start in range(0, 40, 8))
    return f"p{study.subject_id[:2]}/p{study.subject_id}/s{study.study_id}/{name}.jpg"


def write_images(studies: Sequence[PhantomStudy], size: int, folder: Path) -> dict[str, list[dict]]:
    """Render and write the radiographs of each examination; return the boxes of its findings
    (:func:`_boxes`) by study id."""
    boxes: dict[str, list[dict]] = {}
    write = partial(_write_study, size=size, folder=folder)
    with (
        Ticker("radiographs", count_images(studies)) as ticker,
        multiprocessing.Pool(_PROCESSES) as pool,
    ):
        for study, written in zip(studies, pool.imap(write, studies, chunksize=40), strict=True):
            boxes[study.study_id] = written
            ticker.advance(count_images([study]))
    return boxes


def count_images(studies: Sequence[PhantomStudy]) -> int:
    """Return the number of radiographs of the examinations."""
    return sum(1 + study.has_lateral for study in studies)


def _write_study(study: PhantomStudy, size: int, folder: Path) -> list[dict]:
    """Write the radiographs of one examination; return its boxes."""
    boxes = []
    for view in VIEWS if study.has_lateral else VIEWS[:1]:
        path = folder / image_path(study, view)
        path.parent.mkdir(parents=True, exist_ok=True)
        image, regions = render(study, size, view)
        Image.fromarray(image).save(path, quality=92)
        boxes += _boxes(regions, view)
    return boxes


def _boxes(regions: dict[str, np.ndarray], view: View) -> list[dict]:
    """Return ``finding``, ``view``, ``x``, ``y``, ``width`` and ``height`` of the box around each
    connected part of each finding's region, as fractions of the image from its upper left corner.
    """
    boxes = []
    for finding, region in regions.items():
        parts, _ = ndimage.label(region > _EDGE, np.ones((3, 3)))
        for down, across in ndimage.find_objects(parts):
            size = len(region)
            boxes.append(
                {
                    "finding": finding,
                    "view": view,
                    "x": across.start / size,
                    "y": down.start / size,
                    "width": (across.stop - across.start) / size,
                    "height": (down.stop - down.start) / size,
                }
            )
    return boxes


class TrainingImages(NamedTuple):
    """Radiographs with labels."""

    #: uint8 [n, size, size]; those of a corpus have twice the size.
    images: np.ndarray
    #: float32 [n, 13], 1 for each finding that the radiograph shows, in the order of FINDINGS;
    #: those of a corpus have further columns for words.
    labels: np.ndarray
    #: float32 [n, 13, grid, grid], see :func:`render_with_masks`; None if the locations of the
    #: findings are unknown.
    masks: np.ndarray | None


def training_images(seed: int, count: int, size: int, grid: int) -> TrainingImages:
    """Render ``count`` radiographs of a separate world, one view per examination, about two thirds
    of them frontal."""
    images = np.zeros((count, size, size), dtype=np.uint8)
    labels = np.zeros((count, len(FINDINGS)), dtype=np.float32)
    masks = np.zeros((count, len(FINDINGS), grid, grid), dtype=np.float32)
    # Two thirds of the examinations have a lateral view, and half of those use it: a third of the
    # radiographs.
    world = make_world(seed * 1_000_003, count, 1.0, lateral_fraction=0.67, rarity_boost=0.8)
    with Ticker("training radiographs", count) as ticker:
        for row, patient in enumerate(world):
            study = patient.studies[0]
            view = "lateral" if study.has_lateral and study.rng(30).random() < 0.5 else "frontal"
            images[row], masks[row] = render_with_masks(study, size, view, grid)
            visible = visible_findings(study, view)
            labels[row] = [name in visible for name in FINDINGS]
            ticker.advance()
    return TrainingImages(images, labels, masks)


def _add_objects(canvas: Canvas, exposure: Exposure) -> None:
    """Draw the side marker and the distractor, if the radiograph has them.

    Distractors are neither findings nor devices; they teach a model that a bright line or spot is
    not always disease.
    """
    if exposure.marker is not None:
        u, v = exposure.marker_place
        left = 0.78 - 0.1 * u if exposure.marker == "L" else -0.86 + 0.1 * u
        top = -0.90 + 0.28 * v
        letter = [(left + x, top + y) for x, y in _GLYPHS[exposure.marker]]
        canvas.added += canvas.stroke([letter], 0.024)
    u, v, w = exposure.distractor_place
    if exposure.distractor == "skin fold":
        # sharp on one side and fading on the other; unlike a pleural line, it is an edge without
        # thickness
        distance = canvas.x * math.copysign(1.0, w) - 0.52 - 0.14 * u + 0.30 * v * (canvas.y - 0.1)
        fade = np.clip(1.0 - distance / 0.22, 0.0, 1.0) * (distance > 0)
        canvas.added += 0.07 * fade * ramp(0.62 - np.abs(canvas.y - 0.1 - 0.1 * w), 0.2)
    elif exposure.distractor == "buttons":
        for step in range(4):
            height = -0.62 + 0.08 * v + 0.42 * step
            spot = np.square(canvas.x - 0.10 * u) + np.square(canvas.y - height)
            canvas.added += 0.16 * np.sqrt(bump(spot / 0.0016))


def _expose(image: Array, exposure: Exposure, rng: np.random.Generator) -> Array:
    """Convert brightness, about 0 to 1, to the printed radiograph, uint8 [size, size]."""
    size = len(image)
    line = np.linspace(-1.0, 1.0, size, dtype=np.float32)
    across, down = exposure.unevenness
    image = image * (1.0 + across * line + down * line[:, None])
    # fewer quanta pass through dense tissue, so bright parts are noisier
    noise = rng.standard_normal((size, size), dtype=np.float32) * (0.6 + image)
    steps = (np.clip(image + exposure.noise * noise, 0.0, 1.0) * 255.0).astype(np.uint8)
    # the grey value of each step
    level = np.linspace(0.0, 1.0, 256) ** exposure.gamma
    level = (level - 0.4) * exposure.gain + 0.4 + exposure.brightness
    printed = (np.clip(level, 0.0, 1.0) * 255.0).astype(np.uint8)[steps]
    left, top, right, bottom = [round(width * size / 2) for width in exposure.collimation]
    printed[:, :left] = printed[:, size - right :] = 3
    printed[:top] = printed[size - bottom :] = 3
    return printed
