"""Radiographs of a study, and where its findings lie on them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pacer.phantom.frontal import Frontal
from pacer.phantom.lateral import Lateral
from pacer.phantom.world import PhantomStudy
from pacer.records.findings import FINDINGS

View = Literal["frontal", "lateral"]

#: A cell counts as full when a finding takes this share of it: small findings lie across the corners of cells.
FULL_SHARE = 0.4


def visible_findings(study: PhantomStudy, view: View) -> frozenset[str]:
    """The findings that ``view`` shows.

    The frontal view misses the lateral-only findings, the lateral view pneumothorax and rib fractures; neither shows
    what the previous report alone mentions.
    """
    if view == "frontal":
        return study.present - study.lateral_only - study.prior_only
    hidden = {"pneumothorax"}
    if "fracture" in study.findings and study.findings["fracture"].kind == "rib":
        hidden.add("fracture")
    return study.present - study.prior_only - hidden


def render_frontal(study: PhantomStudy, size: int) -> np.ndarray:
    """The frontal radiograph, uint8 [size, size]; the patient's right is on the left."""
    return Frontal(study, size).draw()[0]


def render_lateral(study: PhantomStudy, size: int) -> np.ndarray:
    """The lateral radiograph, uint8 [size, size]; the patient faces left."""
    return Lateral(study, size).draw()[0]


def render_with_masks(study: PhantomStudy, size: int, view: View, grid: int) -> tuple[np.ndarray, np.ndarray]:
    """One radiograph, uint8 [size, size], and how much of every cell of a raster each finding takes, float32
    [13, grid, grid].

    0 is nothing, 1 is FULL_SHARE of the cell or more. Findings follow the order of FINDINGS; those absent, or not
    visible in ``view``, are zero. Thin lines count with a margin around them; cardiomegaly, edema and an enlarged
    mediastinum have the region that they occupy.

    Raises:
        ValueError: ``size`` is not a multiple of ``grid``.
    """
    if size % grid:
        raise ValueError(f"a grid of {grid} cells does not divide an image of {size} pixels")
    image, regions = (Frontal if view == "frontal" else Lateral)(study, size).draw()
    masks = np.zeros((len(FINDINGS), grid, grid), dtype=np.float32)
    cell = size // grid
    for finding, region in regions.items():
        share = region.reshape(grid, cell, grid, cell).mean(axis=(1, 3))
        masks[FINDINGS.index(finding)] = np.minimum(share * np.float32(1.0 / FULL_SHARE), 1.0)
    return image, masks
