"""Depth routing over many images: mean weights of each patch and depth, and how they differ with a finding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from safetensors.numpy import load_file

from pacer.core.errors import DataError
from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN

#: CheXbert classes that count as a finding being present: positive and uncertain.
PRESENT = (POSITIVE, UNCERTAIN)
#: Images with, and without, a finding below which it has no map: a mean of fewer is one patient's anatomy.
FEWEST = 5


@dataclass(frozen=True)
class FindingMap:
    """Mean depth weights ``[N, K]`` of the images ``with_it`` minus those of the images ``without``."""

    finding: str
    with_it: int
    without: int
    difference: np.ndarray


@dataclass(frozen=True)
class ViewRouting:
    """One view: the mean weights ``[N, K]`` over ``images``, and the maps of the findings that have enough of them."""

    view: str
    images: int
    mean: np.ndarray
    findings: tuple[FindingMap, ...]


def read_routing(directory: Path) -> dict[str, np.ndarray]:
    """Depth weights ``[N, K]`` by ``<record_id>/<view>``; empty for a model without a router."""
    path = Path(directory) / "routing.safetensors"
    return load_file(path) if path.exists() else {}


def average_routing(routing: Mapping[str, np.ndarray], cases: pl.DataFrame) -> list[ViewRouting]:
    """Mean maps by view; findings are those of the reference, positive or uncertain.

    Args:
        routing: see :func:`read_routing`; an image is in it once. cases: ``record_id`` and ``reference_labels``.

    Raises:
        DataError: images have different numbers of patches or depths.
    """
    labels = dict(cases.select("record_id", "reference_labels").iter_rows())
    found = []
    for view in ("frontal", "lateral"):
        names = [name for name in routing if name.endswith(f"/{view}") and name.rpartition("/")[0] in labels]
        if not names:
            continue
        shapes = {routing[name].shape for name in names}
        if len(shapes) > 1:
            raise DataError(f"depth weights of {view} images have the shapes {sorted(shapes)}; decode again")
        weights = np.stack([routing[name] for name in names])
        present = np.isin(np.array([labels[name.rpartition("/")[0]] for name in names]), PRESENT)
        maps = []
        for column, finding in enumerate(OBSERVATIONS):
            has = present[:, column]
            if min(has.sum(), (~has).sum()) >= FEWEST:
                difference = weights[has].mean(axis=0) - weights[~has].mean(axis=0)
                maps.append(FindingMap(finding, int(has.sum()), int((~has).sum()), difference))
        maps.sort(key=lambda one: -one.with_it)
        found.append(ViewRouting(view, len(names), weights.mean(axis=0), tuple(maps)))
    return found


def grid(values: np.ndarray) -> np.ndarray:
    """Values of the patches ``[N]`` in their places ``[side, side]``.

    Raises:
        DataError: N is not a square.
    """
    side = math.isqrt(len(values))
    if side * side != len(values):
        raise DataError(f"depth weights of {len(values)} patches do not form a square grid")
    return values.reshape(side, side)


def depth_names(count: int, depths: Sequence[int] | None) -> tuple[str, ...]:
    """``block 4``, ...; numbered where the encoder blocks are not known."""
    if depths is not None and len(depths) == count:
        return tuple(f"block {depth}" for depth in depths)
    return tuple(f"depth {index + 1}" for index in range(count))
