"""A reading of side, severity and course of the findings, for commitments that have them (``commit.attributes``).

With the weights and the bias of a finding, which include the standardisation of x and the calibration,

    P(class c of the finding) = softmax(x · W + b)[c].

For side and severity, x is the means of the frontal image's patch states over the cells of a grid, at every depth that
Refine reads and in what it returns, because the source tokens hardly tell places; for the course it is the summary of
the fused tokens. Not in the paper (``docs/readings.md``). :mod:`pacer.decoding.fit_attributes` fits it. Shapes: K
depths, N patches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from pacer.commitments.description import KINDS, VALUES, Attributes, split_words, words

#: Rows, and columns, of the grid, at least and at most.
GRIDS = range(4, 9)
#: Kinds that are read from patches; the course is read from the tokens.
FROM_PATCHES = ("side", "severity")
#: The classes of each kind, in words.
CLASSES = VALUES | {"side": (*VALUES["side"], "bilateral")}


def summary(fused: Tensor) -> Tensor:
    """Return the mean and the maximum over tokens [..., 2d] of fused tokens [..., Q, d]."""
    return torch.cat([fused.mean(-2), fused.amax(-2)], -1)


def cells(depths: Tensor, refined: Tensor, grid: int) -> Tensor:
    """Return the means of patch states over the cells of the grid, in float32 on the CPU.

    Args:
        depths: what Refine reads [B, K, N, d]. refined: what it returns [B, N, d]. grid: its rows, and columns, G.

    Returns:
        [B, (K + 1) d G²].
    """
    states = torch.cat([depths, refined.unsqueeze(1).to(depths.dtype)], 1).float()
    side = math.isqrt(states.shape[2])
    squares = states.permute(0, 1, 3, 2).flatten(1, 2).unflatten(-1, (side, side))
    return F.adaptive_avg_pool2d(squares, grid).flatten(1).cpu()


def class_of(attributes: Attributes, kind: str) -> int:
    """Return the class that attributes have of a kind; -1: none, or several."""
    named = words(attributes.only([kind]))
    return CLASSES[kind].index(named[0]) if len(named) == 1 else -1


class AttributeChances(NamedTuple):
    """The probability of each class by finding and kind, four decimals, and the ``thresholds`` of the kinds."""

    chances: dict[str, dict[str, list[float]]]
    thresholds: Mapping[str, float]

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return the probability of each word by finding, for JSON."""
        return {
            finding: {
                word: chance
                for kind, of_kind in kinds.items()
                for word, chance in zip(CLASSES[kind], of_kind, strict=True)
            }
            for finding, kinds in self.chances.items()
        }

    def stated(self) -> dict[str, Attributes]:
        """Return the attributes of each finding whose most probable class reaches its kind's threshold."""
        said = {
            finding: " ".join(
                CLASSES[kind][chances.index(max(chances))]
                for kind, chances in kinds.items()
                if max(chances) >= self.thresholds[kind]
            )
            for finding, kinds in self.chances.items()
        }
        return {finding: split_words(f"{text} {finding}", KINDS)[0] for finding, text in said.items()}


@dataclass(frozen=True)
class AttributeReader:
    """Fitted maps, weight [D, C] and bias [C], by finding and kind; the probability from which a kind is stated; and
    the grid of the :func:`cells` that they read."""

    maps: Mapping[tuple[str, str], tuple[Tensor, Tensor]]
    thresholds: Mapping[str, float]
    grid: int

    def __call__(self, depths: Tensor, refined: Tensor, fused: Tensor, prior: bool) -> AttributeChances:
        """Return the probabilities of one record.

        Args:
            depths, refined: states of its frontal image, for :func:`cells`, with B = 1. fused: its tokens [Q, d].
            prior: whether it has a previous report, without which no course is read.
        """
        places, tokens = cells(depths, refined, self.grid)[0], summary(fused.float()).cpu()
        chances: dict[str, dict[str, list[float]]] = {}
        for (finding, kind), (weight, bias) in self.maps.items():
            if kind != "course" or prior:
                of_classes = ((places if kind in FROM_PATCHES else tokens) @ weight + bias).softmax(-1).tolist()
                chances.setdefault(finding, {})[kind] = [round(chance, 4) for chance in of_classes]
        return AttributeChances(chances, self.thresholds)

    def tensors(self) -> dict[str, Tensor]:
        """Return its numbers by name, for one file with those of other readings."""
        named = {f"{kind}/{finding}": pair for (finding, kind), pair in self.maps.items()}
        numbers = {f"{name}/{part}": t for name, pair in named.items() for part, t in zip(("weight", "bias"), pair)}
        thresholds = {f"{kind}/threshold": torch.tensor(value) for kind, value in self.thresholds.items()}
        numbers |= thresholds | {"grid": torch.tensor(self.grid)}
        return {name: tensor.contiguous() for name, tensor in numbers.items()}

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, Tensor]) -> AttributeReader | None:
        """Return the reading with these numbers; None without any."""
        names = [name.split("/") for name in tensors if "/" in name]
        thresholds = {name[0]: round(tensors["/".join(name)].item(), 4) for name in names if name[-1] == "threshold"}
        maps = {
            (finding, kind): (tensors[f"{kind}/{finding}/weight"], tensors[f"{kind}/{finding}/bias"])
            for kind, finding, part in (name for name in names if len(name) == 3)
            if part == "bias"
        }
        return cls(maps, thresholds, int(tensors["grid"])) if thresholds else None
