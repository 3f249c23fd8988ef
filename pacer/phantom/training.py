"""Labelled radiographs for training stand-in encoders: rendered in memory, with rare findings made frequent."""

from __future__ import annotations

import numpy as np

from pacer.core.progress import Ticker
from pacer.phantom.parallel import map_chunks
from pacer.phantom.render import render_with_masks, visible_findings
from pacer.phantom.world import make_world
from pacer.records.findings import FINDINGS

_CHUNK = 100


def training_images(
    seed: int, count: int, size: int, grid: int, processes: int = 2
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Radiographs of a world of their own, one view of each study, about two thirds of them frontal.

    Args:
        seed: seed of the world.
        count: number of radiographs.
        size: pixels of a side.
        grid: patches along a side; divides ``size``.
        processes: worker processes at most.

    Returns:
        images: uint8 [count, size, size].
        labels: float32 [count, 13], 1 for each finding that the radiograph shows, in the order of FINDINGS.
        masks: float32 [count, 13, grid, grid], see :func:`pacer.phantom.render.finding_masks`.
        is_lateral: bool [count].

    Raises:
        ValueError: ``grid`` does not divide ``size``.
    """
    if size % grid:
        raise ValueError(f"a grid of {grid} cells does not divide an image of {size} pixels")
    chunks = [(seed, start, min(_CHUNK, count - start), size, grid) for start in range(0, count, _CHUNK)]
    parts = []
    with Ticker("training radiographs", count) as ticker:
        for part in map_chunks(_render_chunk, chunks, processes):
            parts.append(part)
            ticker.advance(len(part[0]))
    images, labels, masks, is_lateral = (np.concatenate(column) for column in zip(*parts, strict=True))
    return images, labels, masks, is_lateral


def _render_chunk(chunk: tuple[int, int, int, int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    seed, start, count, size, grid = chunk
    # Two thirds of the studies have a lateral view, and half of those give it: one third of the radiographs.
    world = make_world(seed * 1_000_003 + start, count, 1.0, lateral_fraction=0.67, rarity_boost=0.8)
    images = np.zeros((count, size, size), dtype=np.uint8)
    masks = np.zeros((count, len(FINDINGS), grid, grid), dtype=np.float32)
    labels = np.zeros((count, len(FINDINGS)), dtype=np.float32)
    is_lateral = np.zeros(count, dtype=bool)
    for row, patient in enumerate(world):
        study = patient.studies[0]
        is_lateral[row] = study.has_lateral and study.rng(30).random() < 0.5
        view = "lateral" if is_lateral[row] else "frontal"
        images[row], masks[row] = render_with_masks(study, size, view, grid)
        for column, name in enumerate(FINDINGS):
            labels[row, column] = name in visible_findings(study, view)
    return images, labels, masks, is_lateral
