"""Labelled radiographs for training stand-in encoders, rendered in memory, with rare findings made more frequent."""

from typing import NamedTuple

import numpy as np

from pacer.core.progress import Ticker
from pacer.data.findings import FINDINGS
from pacer.phantom.render import render_with_masks, visible_findings
from pacer.phantom.world import make_world

#: Number of studies per world; each chunk comes from a new world.
_CHUNK = 100


class TrainingImages(NamedTuple):
    """``images`` uint8 [n, size, size], of a corpus of twice the size that was asked for; ``labels`` float32 [n, 13], 1
    for each finding that the radiograph shows, in the order of FINDINGS, of a corpus with further columns for words;
    ``masks`` float32 [n, 13, grid, grid], see :func:`pacer.phantom.render.render_with_masks`, or None if the locations
    of the findings are unknown."""

    images: np.ndarray
    labels: np.ndarray
    masks: np.ndarray | None


def training_images(seed: int, count: int, size: int, grid: int) -> TrainingImages:
    """Render ``count`` radiographs of separate worlds, one view per study, about two thirds of them frontal."""
    images = np.zeros((count, size, size), dtype=np.uint8)
    labels = np.zeros((count, len(FINDINGS)), dtype=np.float32)
    masks = np.zeros((count, len(FINDINGS), grid, grid), dtype=np.float32)
    with Ticker("training radiographs", count) as ticker:
        for row in range(count):
            if row % _CHUNK == 0:
                # Two thirds of the studies have a lateral view, and half of those use it: a third of the radiographs.
                patients = make_world(
                    seed * 1_000_003 + row, min(_CHUNK, count - row), 1.0, lateral_fraction=0.67, rarity_boost=0.8
                )
            study = patients[row % _CHUNK].studies[0]
            view = "lateral" if study.has_lateral and study.rng(30).random() < 0.5 else "frontal"
            images[row], masks[row] = render_with_masks(study, size, view, grid)
            visible = visible_findings(study, view)
            labels[row] = [name in visible for name in FINDINGS]
            ticker.advance()
    return TrainingImages(images, labels, masks)
