"""Probabilities of the findings from a record's fused source tokens, and the commitment that
follows from them.

The map is linear in the mean and the maximum of each channel over the tokens. With ``W`` and ``b``,
which include the standardisation of this summary and the calibration of the probabilities,

    P(finding f has state s) = sigmoid(summary(fused) · W[:, s, f] + b[s, f]),   s: positive,
    negative, uncertain.

For commitments with the sides of findings (``commit.attributes``) there are further maps,

    P(finding has side c) = softmax(x · W + b)[c],   c: left, right, bilateral.

Here, x has the means of the frontal image's patch states over the cells of a grid, at every depth
that Refine reads and in its output, because the source tokens hardly encode positions. None of this
is in the paper (``docs/readings.md``). :mod:`pacer.decoding.lists.fit` fits all maps. Shapes: Q
tokens, d width, K depths, N patches.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import torch
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional as F

from pacer.core.anchor import MAX_PER_FIELD, POLARITIES, SIDES, Anchor
from pacer.core.attributes import Attributes
from pacer.core.errors import CheckpointError
from pacer.core.findings import FINDINGS
from pacer.core.io import hash_bytes, read_json, write_json
from pacer.model.checkpoint import WEIGHTS, checkpoint_hash, read_record, read_weights

#: Possible numbers of rows, and of columns, of the grid.
GRIDS = range(4, 9)
#: The classes of a side.
CLASSES = tuple(SIDES)
MAPS = "reader.safetensors"
ABOUT = "reader.json"
#: A finding that is not affirmed is listed as denied or uncertain if the probability of that state
#: is at least this.
STATED = 0.5
#: Parameters that the fused tokens depend on.
_TOKENS = ("router.", "interface.")
#: First column of each state in the map.
_PLACES = range(0, len(POLARITIES) * len(FINDINGS), len(FINDINGS))


def summary(fused: Tensor) -> Tensor:
    """Return the mean and the maximum over tokens [..., 2d] of fused tokens [..., Q, d]."""
    return torch.cat([fused.mean(-2), fused.amax(-2)], -1)


def cells(depths: Tensor, refined: Tensor, grid: int) -> Tensor:
    """Return the means of patch states over the cells of the grid, in float32 on the CPU.

    Args:
        depths: what Refine reads [B, K, N, d].
        refined: what it returns [B, N, d].
        grid: its rows, and columns, G.

    Returns:
        [B, (K + 1) d G²].
    """
    states = torch.cat([depths, refined.unsqueeze(1).to(depths.dtype)], 1).float()
    side = math.isqrt(states.shape[2])
    squares = states.permute(0, 1, 3, 2).flatten(1, 2).unflatten(-1, (side, side))
    return F.adaptive_avg_pool2d(squares, grid).flatten(1).cpu()


@dataclass(frozen=True)
class SidePredictor:
    """The fitted maps of sides, a part of :class:`ListPredictor`."""

    #: Weight [D, 3] and bias [3] by finding.
    maps: Mapping[str, tuple[Tensor, Tensor]]
    #: The probability from which a side is stated.
    threshold: float
    #: Grid of the :func:`cells` that the maps read.
    grid: int

    def __call__(self, depths: Tensor, refined: Tensor) -> dict[str, Attributes]:
        """Return the most probable side of each finding, if its probability reaches the threshold,
        from the states of a record's frontal image, as for :func:`cells` with B = 1."""
        places = cells(depths, refined, self.grid)[0]
        sides = {}
        for finding, (weight, bias) in self.maps.items():
            chances = (places @ weight + bias).softmax(-1)
            if chances.max() >= self.threshold:
                sides[finding] = Attributes(side=SIDES[CLASSES[int(chances.argmax())]])
        return sides

    def tensors(self) -> dict[str, Tensor]:
        """Return the maps and the threshold as named tensors, which are saved in one file with the
        maps of findings."""
        numbers = {
            "grid": torch.tensor(self.grid),
            "side/threshold": torch.tensor(self.threshold),
        }
        for finding, (weight, bias) in self.maps.items():
            numbers[f"side/{finding}/weight"] = weight.contiguous()
            numbers[f"side/{finding}/bias"] = bias.contiguous()
        return numbers

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, Tensor]) -> Self | None:
        """Return the maps of :meth:`tensors`; None if there are none."""
        if "side/threshold" not in tensors:
            return None
        maps = {
            finding: (tensors[f"side/{finding}/weight"], tensors[f"side/{finding}/bias"])
            for finding in FINDINGS
            if f"side/{finding}/bias" in tensors
        }
        return cls(maps, round(tensors["side/threshold"].item(), 4), int(tensors["grid"]))


class Probabilities(NamedTuple):
    """The probabilities that a report affirms, denies or leaves uncertain each finding, in the
    vocabulary's order, with four decimals."""

    positive: list[float]
    negative: list[float]
    uncertain: list[float]

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return the probabilities of present and absent by finding, for JSON."""
        pairs = zip(FINDINGS, self.positive, self.negative, strict=True)
        return {
            finding: {"present": present, "absent": absent} for finding, present, absent in pairs
        }

    def commitment(self, threshold: float) -> Anchor:
        """Return the commitment that affirms the findings whose probability is at least
        ``threshold``. Another finding is denied or uncertain, whichever is more probable, if that
        has a probability of at least :data:`STATED`. A field has at most as many findings as are
        written, the most probable ones."""
        fields: dict[str, list[tuple[float, str]]] = {polarity: [] for polarity in POLARITIES}
        for finding, present, absent, unsure in zip(
            FINDINGS, self.positive, self.negative, self.uncertain, strict=True
        ):
            if present >= threshold:
                fields["positive"].append((-present, finding))
            elif max(absent, unsure) >= STATED:
                fields["negative" if absent >= unsure else "uncertain"].append(
                    (-max(absent, unsure), finding)
                )
        written = [
            [finding for _, finding in sorted(field)[:MAX_PER_FIELD]] for field in fields.values()
        ]
        return Anchor.of(*written)


@dataclass(frozen=True)
class ListPredictor:
    """The fitted maps of findings and, if there are any, of sides."""

    #: [2d, 39], by state, then by finding.
    weight: Tensor
    #: [39].
    bias: Tensor
    sides: SidePredictor | None = None

    @property
    def hash(self) -> str:
        """The SHA-256 of the maps."""
        return hash_bytes(self._content())

    def __call__(self, fused: Tensor) -> Probabilities:
        """Return the probabilities of one record from its fused tokens [Q, d]."""
        values = (summary(fused.float()).cpu() @ self.weight + self.bias).sigmoid().tolist()
        # rounded here, so that the threshold is compared with the numbers that are shown
        rounded = [round(value, 4) for value in values]
        positive, negative, uncertain = (
            rounded[place : place + len(FINDINGS)] for place in _PLACES
        )
        return Probabilities(positive, negative, uncertain)

    def save(self, directory: Path, about: Mapping[str, object]) -> None:
        """Write the maps and ``about``, whose ``weights`` is the hash of the weights that determine
        the tokens."""
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / ABOUT, about)
        # safetensors' own writer creates files that only their owner can read
        (directory / MAPS).write_bytes(self._content())

    def _content(self) -> bytes:
        tensors = {"weight": self.weight.contiguous(), "bias": self.bias.contiguous()}
        if self.sides is not None:
            tensors |= self.sides.tensors()
        return save(tensors)


def read_predictor(directory: Path, checkpoint: Path) -> ListPredictor | None:
    """Read the list predictor for a checkpoint's tokens. None: the checkpoint was trained further
    in the parts that determine the tokens (``calibrate.trains: interface``), so the maps do not
    apply. Raises a CheckpointError if the folder has no maps, or they were fitted with other
    weights."""
    if not (directory / MAPS).is_file():
        raise CheckpointError(f"{directory} has no {MAPS}; run `dvc repro lists`")
    parent = read_record(checkpoint).parent
    path = checkpoint / WEIGHTS
    changed = read_weights(path) if parent is not None and path.exists() else {}
    if any(name.startswith(_TOKENS) for name in changed):
        return None
    fitted_on = checkpoint_hash(checkpoint) if parent is None else parent.sha256
    if read_json(directory / ABOUT)["weights"] != fitted_on:
        raise CheckpointError(
            f"{directory} does not match the weights of {checkpoint}; run `dvc repro lists`"
        )
    tensors = read_weights(directory / MAPS)
    return ListPredictor(tensors["weight"], tensors["bias"], SidePredictor.of_tensors(tensors))
