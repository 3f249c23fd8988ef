"""Rendering of a study's radiographs, with masks of the findings, and writing of the image files."""

import multiprocessing
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image
from scipy import ndimage

from pacer.core.io import hash_json
from pacer.core.progress import Ticker
from pacer.data.findings import FINDINGS
from pacer.phantom import frontal, lateral
from pacer.phantom.exposure import add_distractor, expose
from pacer.phantom.world import FindingState, PhantomStudy

View = Literal["frontal", "lateral"]
_VIEWS = {"frontal": frontal.Frontal, "lateral": lateral.Lateral}
#: Drawing functions by finding, on the frontal and on the lateral view; cardiomegaly and an enlarged mediastinum change
#: the anatomy itself.
_PAINTERS: dict[str, tuple[Callable[[Any, FindingState], None], ...]] = {
    "atelectasis": (frontal.atelectasis, lateral.atelectasis),
    "consolidation": (frontal.consolidation, lateral.consolidation),
    "edema": (frontal.edema, lateral.edema),
    "fracture": (frontal.fracture, lateral.fracture),
    "lung lesion": (frontal.lung_lesion, lateral.lung_lesion),
    "lung opacity": (frontal.lung_opacity, lateral.lung_opacity),
    "pleural effusion": (frontal.pleural_effusion, lateral.pleural_effusion),
    "pleural abnormality": (frontal.pleural_abnormality, lateral.pleural_abnormality),
    "pneumonia": (frontal.pneumonia, lateral.pneumonia),
    "pneumothorax": (frontal.pneumothorax,),
    "support devices": (frontal.support_devices, lateral.support_devices),
}
VIEWS: tuple[View, ...] = ("frontal", "lateral")

#: Number of rendering processes.
_PROCESSES = 2

#: A cell counts as full if a finding covers this share of it, because small findings may straddle cells.
FULL_SHARE = 0.4
#: Share of a pixel that a finding must cover for the pixel to lie in one of its boxes.
_EDGE = 0.2


def visible_findings(study: PhantomStudy, view: View) -> set[str]:
    """Return the findings that ``view`` shows.

    The frontal view does not show lateral-only findings, and the lateral view does not show pneumothorax and rib
    fractures; neither shows findings that only the previous report mentions.
    """
    if view == "frontal":
        return study.findings.keys() - study.lateral_only - study.prior_only
    hidden = {"pneumothorax"}
    if "fracture" in study.findings and study.findings["fracture"].kind == "rib":
        hidden.add("fracture")
    return study.findings.keys() - study.prior_only - hidden


def _draw(study: PhantomStudy, size: int, view: View) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the radiograph, uint8 [size, size], and the region of each visible finding, float32 [size, size]."""
    is_frontal = view == "frontal"
    drawing, visible = _VIEWS[view](study, size), visible_findings(study, view)
    canvas = drawing.canvas
    density = None if is_frontal else drawing.body()
    for name, state in study.findings.items():
        if name in visible and name in _PAINTERS:
            _PAINTERS[name][VIEWS.index(view)](drawing, state)
    if density is None:  # in the frontal view findings hide the vessels
        density = drawing.body()
    exposure = study.exposure if is_frontal else study.lateral_exposure
    add_distractor(canvas, exposure)
    image = density - np.float32(drawing.air_depth) * drawing.lung * canvas.clear + canvas.added
    return expose(image, exposure, drawing.rng, is_frontal), canvas.regions


def render(study: PhantomStudy, size: int, view: View) -> np.ndarray:
    """Render a radiograph, uint8 [size, size]; the patient's right is on the left, or the patient faces left."""
    return _draw(study, size, view)[0]


def render_with_masks(study: PhantomStudy, size: int, view: View, grid: int) -> tuple[np.ndarray, np.ndarray]:
    """Render one radiograph, uint8 [size, size], and the coverage of every grid cell by each finding, float32
    [13, grid, grid].

    0 means no coverage, 1 means FULL_SHARE of the cell or more. Findings follow the order of FINDINGS; those absent, or
    not visible in ``view``, are zero. Thin lines include a margin around them; cardiomegaly, edema and an enlarged
    mediastinum cover the region that they occupy. ``grid`` divides ``size``.
    """
    image, regions = _draw(study, size, view)
    masks = np.zeros((len(FINDINGS), grid, grid), dtype=np.float32)
    cell = size // grid
    for finding, region in regions.items():
        share = region.reshape(grid, cell, grid, cell).mean(axis=(1, 3))
        masks[FINDINGS.index(finding)] = np.minimum(share * np.float32(1.0 / FULL_SHARE), 1.0)
    return image, masks


def image_path(study: PhantomStudy, name: str) -> str:
    """Return the path of a radiograph (``name``: its view) below the image folder, in MIMIC-CXR-JPG's layout."""
    name = hash_json([study.subject_id, study.study_id, name])
    name = "-".join(name[start : start + 8] for start in range(0, 40, 8))
    return f"p{study.subject_id[:2]}/p{study.subject_id}/s{study.study_id}/{name}.jpg"


def write_images(studies: Sequence[PhantomStudy], size: int, folder: Path) -> dict[str, list[dict]]:
    """Render and write the radiographs of each study; return the boxes of its findings (:func:`_boxes`) by study id."""
    boxes: dict[str, list[dict]] = {}
    write = partial(_write_study, size=size, folder=folder)
    with Ticker("radiographs", count_images(studies)) as ticker, multiprocessing.Pool(_PROCESSES) as pool:
        for study, written in zip(studies, pool.imap(write, studies, chunksize=40), strict=True):
            boxes[study.study_id] = written
            ticker.advance(count_images([study]))
    return boxes


def count_images(studies: Sequence[PhantomStudy]) -> int:
    """Return the number of radiographs of the studies."""
    return sum(1 + study.has_lateral for study in studies)


def _write_study(study: PhantomStudy, size: int, folder: Path) -> list[dict]:
    """Write the radiographs of one study; return its boxes."""
    boxes = []
    for view in VIEWS[: 1 + study.has_lateral]:
        path = folder / image_path(study, view)
        path.parent.mkdir(parents=True, exist_ok=True)
        image, regions = _draw(study, size, view)
        Image.fromarray(image).save(path, quality=92)
        boxes += _boxes(regions, view)
    return boxes


def _boxes(regions: dict[str, np.ndarray], view: View) -> list[dict]:
    """Return ``finding``, ``view``, ``x``, ``y``, ``width`` and ``height`` of the box around each connected part of
    each finding's region, in shares of the image from its upper left corner."""
    boxes = []
    for finding, region in regions.items():
        parts, _ = ndimage.label(region > _EDGE, np.ones((3, 3)))
        for down, across in ndimage.find_objects(parts):
            edges = across.start, down.start, across.stop - across.start, down.stop - down.start
            place = zip(("x", "y", "width", "height"), (edge / len(region) for edge in edges), strict=True)
            boxes.append({"finding": finding, "view": view, **dict(place)})
    return boxes
