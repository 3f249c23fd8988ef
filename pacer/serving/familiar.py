"""Whether an image is like those that a model was trained on, by the states of the frozen encoder.

At each tapped depth the mean state over the patches has a Mahalanobis distance to those of training images (Lee et al.,
NeurIPS 2018); a view is unlike when the root mean square over depths and dimensions is above what all but no image of
the val split has.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
import safetensors.torch
import torch
from torch import Tensor

from pacer.core.errors import CheckpointError
from pacer.core.progress import Ticker
from pacer.model.checkpoint import read_weights
from pacer.model.collate import FeatureSource

FILE, VIEWS = "familiar.safetensors", ("frontal", "lateral")
#: Images of the train split, by which likeness is judged, and of val, by which its limit is set; fewer say nothing.
_LEARNT, _HELD_OUT, _FEWEST = 1000, 300, 20
#: Of the largest distance in val: images of another split have been up to 1.12 times as far.
_MARGIN = 1.2
#: Added to each variance, as a share: dimensions that hardly vary in training decide nothing alone.
_RIDGE = 0.01
_BATCH = 16


class Likeness(NamedTuple):
    """What training images of one view are like: ``mean`` [K, d], ``precision`` [K, d, d], ``limit`` a scalar."""

    mean: Tensor
    precision: Tensor
    limit: Tensor

    def distances(self, means: Tensor) -> Tensor:
        """[B] of mean states [B, K, d]; about 1 for a training image."""
        off = means - self.mean
        return torch.einsum("bki,kij,bkj->b", off, self.precision, off).div(self.mean.numel()).sqrt()

    def has(self, states: Tensor) -> bool:
        """Whether an image with states [K, N, d] is like them."""
        return bool(self.distances(states.float().mean(1).unsqueeze(0)) <= self.limit)


def write_likeness(features: FeatureSource, records: pl.DataFrame, path: Path) -> None:
    """Learn the likeness of each view that records of train and val have images enough of."""
    tensors = {}
    for view in VIEWS:
        learnt, held_out = (
            _images(records.filter(split=split)[view], most) for split, most in (("train", _LEARNT), ("val", _HELD_OUT))
        )
        if min(len(learnt), len(held_out)) >= _FEWEST:
            found = _learn(_means(features, learnt, view), _means(features, held_out, view))
            tensors |= {f"{view}.{name}": tensor.contiguous() for name, tensor in found._asdict().items()}
    if tensors:
        safetensors.torch.save_file(tensors, path)


def read_likeness(path: Path, depths: int, width: int) -> dict[str, Likeness]:
    """By view; of an export of an earlier version nothing.

    Args:
        depths, width: K and d of the encoder whose states are to be judged.

    Raises:
        CheckpointError: the file is damaged, or of another encoder.
    """
    tensors = read_weights(path) if path.is_file() else {}
    views = [view for view in VIEWS if f"{view}.limit" in tensors]
    shapes = {"mean": (depths, width), "precision": (depths, width, width), "limit": ()}
    expected = {f"{view}.{name}": (shape, torch.float32) for view in views for name, shape in shapes.items()}
    found = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    if found != expected or not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise CheckpointError(f"{path} does not belong to {depths} depths of width {width}; export the model again")
    return {view: Likeness(*(tensors[f"{view}.{name}"] for name in Likeness._fields)) for view in views}


def _learn(learnt: Tensor, held_out: Tensor) -> Likeness:
    mean = learnt.mean(0)
    covariance = torch.stack([torch.cov(depth.T) for depth in learnt.double().unbind(1)])
    variances = covariance.diagonal(dim1=1, dim2=2)
    precision = torch.linalg.inv(covariance + torch.diag_embed(_RIDGE * variances + 1e-12)).float()
    found = Likeness(mean, precision, torch.ones(()))
    return found._replace(limit=_MARGIN * found.distances(held_out).max())


def _images(column: pl.Series, most: int) -> list[str]:
    names = sorted(set(column.drop_nulls()))
    return sorted(random.Random(0).sample(names, min(most, len(names))))


def _means(features: FeatureSource, names: Sequence[str], view: str) -> Tensor:
    """[n, K, d]: mean states over the patches."""

    def parts() -> Iterator[Tensor]:
        with Ticker(f"{view} images", len(names)) as ticker:
            for start in range(0, len(names), _BATCH):
                states = features.depth_states(names[start : start + _BATCH])
                yield states.float().mean(2)
                ticker.advance(len(states))

    return torch.cat(list(parts()))
