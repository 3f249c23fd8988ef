"""A reading of the findings from a record's fused source tokens: probabilities, and the commitment
that they make.

The map is linear in the mean and the maximum of each channel over the tokens. With ``W`` and ``b``,
which include the standardisation of this summary and the calibration of the probabilities,

    P(finding f has state s) = sigmoid(summary(fused) · W[:, s, f] + b[s, f]),   s: positive,
    negative, uncertain.

Commitments with side, severity and course of the findings (``commit.attributes``) have a second
reading,

    P(class c of the finding) = softmax(x · W + b)[c].

For side and severity, x is the means of the frontal image's patch states over the cells of a grid,
at every depth that Refine reads and in what it returns, because the source tokens hardly tell
places; for the course it is the summary of the fused tokens. Not in the paper
(``docs/readings.md``). :mod:`pacer.reading.fit` fits both. Shapes: Q tokens, d width, K
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

from pacer.commitments.anchor import (
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
from pacer.core.io import hash_bytes, read_json, write_json
from pacer.data.findings import FINDINGS
from pacer.model.checkpoint import WEIGHTS, checkpoint_hash, read_record, read_weights

#: Rows, and columns, of the grid, at least and at most.
GRIDS = range(4, 9)
#: Kinds that are read from patches; the course is read from the tokens.
FROM_PATCHES = ("side", "severity")
#: The classes of each kind, in words.
CLASSES = VALUES | {"side": (*VALUES["side"], "bilateral")}
READER = "reader.safetensors"
ABOUT = "reader.json"
#: A finding that is not affirmed is denied or uncertain from this probability on.
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
        depths: what Refine reads [B, K, N, d]. refined: what it returns [B, N, d]. grid: its rows,
            and columns, G.

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
    """The probability of each class by finding and kind, four decimals, and the ``thresholds`` of
    the kinds."""

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
        """Return the attributes of each finding whose most probable class reaches its kind's
        threshold."""
        said = {
            finding: " ".join(
                CLASSES[kind][chances.index(max(chances))]
                for kind, chances in kinds.items()
                if max(chances) >= self.thresholds[kind]
            )
            for finding, kinds in self.chances.items()
        }
        return {
            finding: split_words(f"{text} {finding}", KINDS)[0] for finding, text in said.items()
        }


@dataclass(frozen=True)
class AttributeReader:
    """Fitted maps, weight [D, C] and bias [C], by finding and kind; the probability from which a
    kind is stated; and the grid of the :func:`cells` that they read."""

    maps: Mapping[tuple[str, str], tuple[Tensor, Tensor]]
    thresholds: Mapping[str, float]
    grid: int

    def __call__(
        self, depths: Tensor, refined: Tensor, fused: Tensor, prior: bool
    ) -> AttributeChances:
        """Return the probabilities of one record.

        Args:
            depths, refined: states of its frontal image, for :func:`cells`, with B = 1. fused: its
                tokens [Q, d].
            prior: whether it has a previous report, without which no course is read.
        """
        places = cells(depths, refined, self.grid)[0]
        tokens = summary(fused.float()).cpu()
        chances: dict[str, dict[str, list[float]]] = {}
        for (finding, kind), (weight, bias) in self.maps.items():
            if kind != "course" or prior:
                of_classes = (
                    ((places if kind in FROM_PATCHES else tokens) @ weight + bias)
                    .softmax(-1)
                    .tolist()
                )
                chances.setdefault(finding, {})[kind] = [round(chance, 4) for chance in of_classes]
        return AttributeChances(chances, self.thresholds)

    def tensors(self) -> dict[str, Tensor]:
        """Return its numbers by name, for one file with those of other readings."""
        named = {f"{kind}/{finding}": pair for (finding, kind), pair in self.maps.items()}
        numbers = {
            f"{name}/{part}": t
            for name, pair in named.items()
            for part, t in zip(("weight", "bias"), pair)
        }
        thresholds = {
            f"{kind}/threshold": torch.tensor(value) for kind, value in self.thresholds.items()
        }
        numbers |= thresholds | {"grid": torch.tensor(self.grid)}
        return {name: tensor.contiguous() for name, tensor in numbers.items()}

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, Tensor]) -> Self | None:
        """Return the reading with these numbers; None without any."""
        names = [name.split("/") for name in tensors if "/" in name]
        thresholds = {
            name[0]: round(tensors["/".join(name)].item(), 4)
            for name in names
            if name[-1] == "threshold"
        }
        maps = {
            (finding, kind): (
                tensors[f"{kind}/{finding}/weight"],
                tensors[f"{kind}/{finding}/bias"],
            )
            for kind, finding, part in (name for name in names if len(name) == 3)
            if part == "bias"
        }
        return cls(maps, thresholds, int(tensors["grid"])) if thresholds else None


class Probabilities(NamedTuple):
    """The probability of each finding, in the vocabulary's order, that a report affirms it
    (``positive``), denies it or leaves it uncertain; four decimals."""

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
        """Return the commitment that affirms findings whose probability is at least ``threshold``.
        Of the others those are denied or uncertain, whichever is more probable, with a probability
        of at least :data:`STATED`. A field keeps its most probable findings, as many as are
        written."""
        fields: dict[str, list[tuple[float, str]]] = {polarity: [] for polarity in POLARITIES}
        for finding, present, absent, unsure in zip(FINDINGS, *self, strict=True):
            if present >= threshold:
                fields["positive"].append((-present, finding))
            elif max(absent, unsure) >= STATED:
                fields["negative" if absent >= unsure else "uncertain"].append(
                    (-max(absent, unsure), finding)
                )
        return Anchor.of(
            *(
                [finding for _, finding in sorted(field)[:MAX_PER_FIELD]]
                for field in fields.values()
            )
        )


@dataclass(frozen=True)
class FindingsReader:
    """A fitted reading: ``weight`` [2d, 39] and ``bias`` [39], by state, then by finding; and that
    of attributes."""

    weight: Tensor
    bias: Tensor
    attributes: AttributeReader | None = None

    @property
    def hash(self) -> str:
        """The SHA-256 of its numbers."""
        return hash_bytes(self._content())

    def __call__(self, fused: Tensor) -> Probabilities:
        """Return the probabilities of one record from its fused tokens [Q, d]."""
        values = (summary(fused.float()).cpu() @ self.weight + self.bias).sigmoid().tolist()
        # rounded first, so that what is shown is what the threshold was compared with
        return Probabilities(
            *([round(value, 4) for value in values[place:][: len(FINDINGS)]] for place in _PLACES)
        )

    def save(self, directory: Path, about: Mapping[str, object]) -> None:
        """Write the reading and ``about``, whose ``weights`` is the hash of the weights that make
        the tokens."""
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / ABOUT, about)
        # safetensors' own writer creates files that only the owner can read
        (directory / READER).write_bytes(self._content())

    def _content(self) -> bytes:
        of_findings = {"weight": self.weight.contiguous(), "bias": self.bias.contiguous()}
        return save(of_findings | ({} if self.attributes is None else self.attributes.tensors()))


def read_reader(directory: Path, checkpoint: Path) -> FindingsReader | None:
    """Read the reading of a checkpoint's tokens. None: the checkpoint has changed the parts that
    make the tokens (``calibrate.trains: interface``), so that the reading does not apply. Raises a
    CheckpointError if the folder has no reading, or one of other weights."""
    if not (directory / READER).is_file():
        raise CheckpointError(f"{directory} has no {READER}; run `dvc repro findings`")
    parent = read_record(checkpoint).parent
    path = checkpoint / WEIGHTS
    if (
        parent is not None
        and path.exists()
        and any(name.startswith(_TOKENS) for name in read_weights(path))
    ):
        return None
    if read_json(directory / ABOUT)["weights"] != (
        checkpoint_hash(checkpoint) if parent is None else parent.sha256
    ):
        raise CheckpointError(
            f"{directory} does not match the weights of {checkpoint}; run `dvc repro findings`"
        )
    tensors = read_weights(directory / READER)
    return FindingsReader(tensors["weight"], tensors["bias"], AttributeReader.of_tensors(tensors))
