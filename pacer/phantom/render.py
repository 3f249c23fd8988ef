"""Rendering of an examination's radiographs: drawing, printing, masks of the findings, image files,
labelled training images.

Objects on the body use body coordinates; the print uses detector coordinates. In both, x runs to
the right and y downwards, from -1 to 1.
"""

import multiprocessing
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image
from scipy import ndimage

from pacer.core.findings import FINDINGS
from pacer.core.io import hash_json
from pacer.core.progress import Ticker
from pacer.phantom import frontal, lateral
from pacer.phantom.anatomy import Exposure
from pacer.phantom.canvas import Array, Canvas, bump, curve, pixel_centres, power, ramp, sine
from pacer.phantom.world import PhantomStudy, make_world

View = Literal["frontal", "lateral"]
#: The class that draws a view, and the module whose functions draw the findings that they are named
#: after; cardiomegaly and an enlarged mediastinum change the anatomy itself.
_VIEWS: dict[View, tuple[Any, Any]] = {
    "frontal": (frontal.Frontal, frontal),
    "lateral": (lateral.Lateral, lateral),
}
VIEWS: tuple[View, ...] = ("frontal", "lateral")
#: Number of rendering processes.
_PROCESSES = 2

#: A cell counts as full if a finding covers this share of it, because small findings may straddle
#: cells.
FULL_SHARE = 0.4
#: Share of a pixel that a finding must cover for the pixel to lie in one of its boxes.
_EDGE = 0.2
#: Side markers as 5 x 7 rasters.
_GLYPHS = {
    "L": ("10000", "10000", "10000", "10000", "10000", "10000", "11111"),
    "R": ("11110", "10001", "10001", "11110", "10100", "10010", "10001"),
}
#: Steps of brightness that are printed.
_STEPS = 1024
#: Number of examinations per world; each chunk comes from a new world.
_CHUNK = 100


def visible_findings(study: PhantomStudy, view: View) -> set[str]:
    """Return the findings that ``view`` shows.

    The frontal view does not show lateral-only findings, and the lateral view does not show
    pneumothorax and rib fractures; neither shows findings that only the previous report mentions.
    """
    if view == "frontal":
        return study.findings.keys() - study.lateral_only - study.prior_only
    hidden = {"pneumothorax"}
    if "fracture" in study.findings and study.findings["fracture"].kind == "rib":
        hidden.add("fracture")
    return study.findings.keys() - study.prior_only - hidden


def render(study: PhantomStudy, size: int, view: View) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return a radiograph, uint8 [size, size], and the region of each visible finding, float32
    [size, size]. The patient's right is on the left of a frontal view; on a lateral one, the
    patient faces left."""
    is_frontal = view == "frontal"
    draw, painters = _VIEWS[view]
    drawing = draw(study, size)
    visible = visible_findings(study, view)
    density = None if is_frontal else drawing.body()
    for name, state in study.findings.items():
        paint = getattr(painters, name.replace(" ", "_"), None)
        if name in visible and paint is not None:
            paint(drawing, state)
    if density is None:  # in the frontal view findings hide the vessels
        density = drawing.body()
    exposure = study.exposure if is_frontal else study.lateral_exposure
    _add_distractor(drawing, exposure)
    image = density - np.float32(drawing.air_depth) * drawing.lung * drawing.clear + drawing.added
    return _expose(image, exposure, drawing.rng, is_frontal), drawing.regions


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
    """Render ``count`` radiographs of separate worlds, one view per examination, about two thirds
    of them frontal."""
    images = np.zeros((count, size, size), dtype=np.uint8)
    labels = np.zeros((count, len(FINDINGS)), dtype=np.float32)
    masks = np.zeros((count, len(FINDINGS), grid, grid), dtype=np.float32)
    with Ticker("training radiographs", count) as ticker:
        for row in range(count):
            if row % _CHUNK == 0:
                # Two thirds of the examinations have a lateral view, and half of those use it: a
                # third of the radiographs.
                patients = make_world(
                    seed * 1_000_003 + row,
                    min(_CHUNK, count - row),
                    1.0,
                    lateral_fraction=0.67,
                    rarity_boost=0.8,
                )
            study = patients[row % _CHUNK].studies[0]
            view = "lateral" if study.has_lateral and study.rng(30).random() < 0.5 else "frontal"
            images[row], masks[row] = render_with_masks(study, size, view, grid)
            visible = visible_findings(study, view)
            labels[row] = [name in visible for name in FINDINGS]
            ticker.advance()
    return TrainingImages(images, labels, masks)


def _add_distractor(canvas: Canvas, exposure: Exposure) -> None:
    """Draw the examination's distractor, if it has one: a skin fold, buttons, an underwire or a
    folded sleeve.

    Distractors are neither findings nor devices; they teach a model that a bright line or spot is
    not always disease.
    """
    if exposure.distractor is None:
        return
    u, v, w = exposure.distractor_place
    x, y = canvas.x, canvas.y
    if exposure.distractor == "skin fold":
        # sharp on one side and fading on the other; unlike a pleural line, it is an edge without
        # thickness
        sign = 1.0 if w > 0 else -1.0
        distance = sign * x - np.float32(0.52 + 0.14 * u) + np.float32(0.30 * v) * (y - 0.1)
        fade = np.clip(1.0 - distance / 0.22, 0.0, 1.0) * (distance > 0)
        canvas.added += 0.07 * fade * ramp(0.62 - np.abs(y - 0.1 - 0.1 * w), 0.2)
    elif exposure.distractor == "buttons":
        place = 0.10 * u
        for step in range(4 if w > 0 else 3):
            height = -0.62 + 0.08 * v + 0.42 * step
            spot = (np.square(x - np.float32(place)) + np.square(y - np.float32(height))) / 0.0016
            canvas.added += 0.16 * np.sqrt(bump(spot))
    elif exposure.distractor == "underwire":
        low = 0.62 + 0.06 * u
        reach = 0.24 + 0.03 * v
        points = ((0.44 - reach, 0.40), (0.44, low + 0.20), (0.44 + reach, 0.36))
        arcs = [
            curve(*((sign * place, height) for place, height in points), points=8)
            for sign in (-1, 1)
        ]
        canvas.added += 0.11 * canvas.stroke(arcs, 0.022)
    else:
        # a folded sleeve or blanket: a soft band next to the chest or across its top
        if w > 0:
            band = np.abs(y + np.float32(0.80 + 0.1 * u) - np.float32(0.25 * v) * x)
        else:
            band = np.abs(np.abs(x) - np.float32(0.93 + 0.04 * u))
        canvas.added += 0.06 * ramp(0.05 - band, 0.05)


def _expose(image: Array, exposure: Exposure, rng: np.random.Generator, frontal: bool) -> Array:
    """Convert brightness to the printed radiograph, uint8 [size, size].

    Args:
        image: brightness, about 0 to 1, float32 [size, size].
        rng: generates the noise.
        frontal: on a frontal view the marker is on the patient's corresponding side; on a lateral,
            on either side.
    """
    size = image.shape[0]
    x, y = pixel_centres(size)
    # a share of every pixel spreads to its four neighbours
    share = np.float32(exposure.blur)
    padded = np.pad(image, 1, mode="edge")
    across = padded[1:-1, :-2] + padded[1:-1, 2:] + padded[:-2, 1:-1] + padded[2:, 1:-1]
    image = image * (1 - share) + across * (share / 4)
    corner = np.square(x - np.float32(exposure.centre[0])) + np.square(
        y - np.float32(exposure.centre[1])
    )
    image = image * (1.0 - np.float32(0.5 * exposure.vignette) * corner)
    # fewer quanta pass through dense tissue, so bright parts are noisier
    deviation = np.float32(exposure.noise) * (np.float32(0.6) + image)
    image = image + rng.standard_normal((size, size), dtype=np.float32) * deviation
    if exposure.grid:
        rows = np.arange(size, dtype=np.float32) * np.float32(2.0 * np.pi / exposure.grid_period)
        image += (np.float32(exposure.grid) * sine(rows))[:, None]
    steps = (np.clip(image, 0.0, 1.0) * np.float32(_STEPS - 1)).astype(np.int16)
    # the grey value of each step
    level = power(np.linspace(0.0, 1.0, _STEPS, dtype=np.float32), exposure.gamma)
    level = (level - 0.4) * np.float32(exposure.gain) + np.float32(0.4 + exposure.brightness)
    printed = (np.clip(level, 0.0, 1.0) * np.float32(255.0)).astype(np.uint8)[steps]
    left, top, right, bottom = [round(width * size / 2) for width in exposure.collimation]
    printed[:, :left] = printed[:, size - right :] = 3
    printed[:top] = printed[size - bottom :] = 3
    if exposure.label:
        _burn_label(printed, exposure)
    if exposure.marker:
        _place_marker(printed, exposure, frontal)
    return printed


def _burn_label(printed: Array, exposure: Exposure) -> None:
    """Draw a box with print-like lines in a corner, dark on bright or bright on dark."""
    size = len(printed)
    width = round(0.15 * size)
    height = round(0.055 * size)
    top = 1 if exposure.label_corner < 2 else size - height - 1
    left = 1 if exposure.label_corner % 2 == 0 else size - width - 1
    ground, ink = (12, 205) if exposure.label == 1 else (215, 40)
    printed[top : top + height, left : left + width] = ground
    printed[top + 1 : top + height - 1 : 3, left + 1 : left + width - 2] = ink
    printed[top + 1 : top + height - 1, left + 3 : left + width : 4] = ground


def _place_marker(printed: Array, exposure: Exposure, frontal: bool) -> None:
    """Draw the marker in an upper corner next to the neck; on frontal views it is on the patient's
    marked side."""
    size = len(printed)
    pixels = max(1, round(size / 80))  # per dot
    dots = np.array([[dot == "1" for dot in row] for row in _GLYPHS[exposure.marker]])
    glyph = np.kron(dots, np.ones((pixels, pixels), dtype=bool))
    height, width = glyph.shape
    u, v = exposure.marker_place
    inward = round((0.045 + 0.05 * u) * size)
    on_right = exposure.marker == "L" if frontal else u > 0.5
    left = size - inward - width if on_right else inward
    top = round((0.05 + 0.14 * v) * size)
    area = printed[top : top + height, left : left + width]
    area[glyph] = 245
