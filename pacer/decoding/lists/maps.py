"""Probabilities of the findings from a record's fused source tokens, and the commitment that
follows from them.

The map is linear in the mean and the maximum of each channel over the tokens. With ``W`` and ``b``,
which include the standardisation of this summary and the calibration of the probabilities,

    P(finding f has state s) = sigmoid(summary(fused) · W[:, s, f] + b[s, f]),   s: positive,
    negative, uncertain.

For commitments with side, severity and course of the findings (``commit.attributes``) there are
further maps,

    P(class c of the finding) = softmax(x · W + b)[c].

For side and severity, x has the means of the frontal image's patch states over the cells of a grid,
at every depth that Refine reads and in its output, because the source tokens hardly encode
positions. For the course it is the summary of the fused tokens. None of this is in the paper
(``docs/readings.md``). :mod:`pacer.decoding.lists.fit` fits all maps. Shapes: Q tokens, d width, K
depths, N patches.
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

from pacer.core.anchor import (
    KINDS,
    MAX_PER_FIELD,
    POLARITIES,
    VALUES,
    Anchor,
    Attributes,
    split_words,
    words,
)
from pacer.core.errors import CheckpointError
from pacer.core.findings import FINDINGS
from pacer.core.io import hash_bytes, read_json, write_json
from pacer.model.checkpoint import WEIGHTS, checkpoint_hash, read_record, read_weights

#: Possible numbers of rows, and of columns, of the grid.
GRIDS = range(4, 9)
#: Kinds that are predicted from patches; the course is predicted from the tokens.
FROM_PATCHES = ("side", "severity")
#: The classes of each kind, in words.
CLASSES = VALUES | {"side": (*VALUES["side"], "bilateral")}
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


def class_of(attributes: Attributes, kind: str) -> int:
    """Return the class of the attributes of a kind; -1: none, or several."""
    named = words(attributes.only([kind]))
    return CLASSES[kind].index(named[0]) if len(named) == 1 else -1


class AttributeChances(NamedTuple):
    """Probabilities of attributes."""

    #: The probability of each class, by finding and kind, with four decimals.
    chances: dict[str, dict[str, list[float]]]
    #: The threshold of each kind.
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
        """Return the attributes of each finding: the most probable class of each kind, if its
        probability reaches the threshold of the kind."""
        texts = {
            finding: " ".join(
                CLASSES[kind][chances.index(max(chances))]
                for kind, chances in kinds.items()
                if max(chances) >= self.thresholds[kind]
            )
            for finding, kinds in self.chances.items()
        }
        return {
            finding: split_words(f"{text} {finding}", KINDS)[0] for finding, text in texts.items()
        }


@dataclass(frozen=True)
class AttributePredictor:
    """The fitted maps of attributes, a part of :class:`ListPredictor`."""

    #: Weight [D, C] and bias [C] by finding and kind.
    maps: Mapping[tuple[str, str], tuple[Tensor, Tensor]]
    #: The probability from which a kind is stated.
    thresholds: Mapping[str, float]
    #: Grid of the :func:`cells` that the maps read.
    grid: int

    def __call__(
        self, depths: Tensor, refined: Tensor, fused: Tensor, prior: bool
    ) -> AttributeChances:
        """Return the probabilities of one record.

        Args:
            depths, refined: states of its frontal image, for :func:`cells`, with B = 1.
            fused: its tokens [Q, d].
            prior: whether it has a previous report, without which no course is predicted.
        """
        places = cells(depths, refined, self.grid)[0]
        tokens = summary(fused.float()).cpu()
        chances: dict[str, dict[str, list[float]]] = {}
        for (finding, kind), (weight, bias) in self.maps.items():
            if kind != "course" or prior:
                values = places if kind in FROM_PATCHES else tokens
                by_class = (values @ weight + bias).softmax(-1).tolist()
                chances.setdefault(finding, {})[kind] = [round(chance, 4) for chance in by_class]
        return AttributeChances(chances, self.thresholds)

    def tensors(self) -> dict[str, Tensor]:
        """Return the maps and thresholds as named tensors, which are saved in one file with the
        maps of findings."""
        numbers = {}
        for (finding, kind), (weight, bias) in self.maps.items():
            numbers[f"{kind}/{finding}/weight"] = weight
            numbers[f"{kind}/{finding}/bias"] = bias
        for kind, threshold in self.thresholds.items():
            numbers[f"{kind}/threshold"] = torch.tensor(threshold)
        numbers["grid"] = torch.tensor(self.grid)
        return {name: tensor.contiguous() for name, tensor in numbers.items()}

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, Tensor]) -> Self | None:
        """Return the maps of :meth:`tensors`; None if there are none."""
        thresholds = {}
        maps = {}
        for name in tensors:
            if name.endswith("/threshold"):
                thresholds[name.split("/")[0]] = round(tensors[name].item(), 4)
            elif name.count("/") == 2 and name.endswith("/bias"):
                kind, finding, _ = name.split("/")
                maps[finding, kind] = (tensors[f"{kind}/{finding}/weight"], tensors[name])
        return cls(maps, thresholds, int(tensors["grid"])) if thresholds else None


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
    """The fitted maps of findings and, if there are any, of attributes."""

    #: [2d, 39], by state, then by finding.
    weight: Tensor
    #: [39].
    bias: Tensor
    attributes: AttributePredictor | None = None

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
        if self.attributes is not None:
            tensors |= self.attributes.tensors()
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
    return ListPredictor(tensors["weight"], tensors["bias"], AttributePredictor.of_tensors(tensors))
