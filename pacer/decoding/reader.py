"""A reading of the findings from a record's fused source tokens: probabilities, and the commitment that they make.

The map is linear in the mean and the maximum of each channel over the tokens. With ``W`` and ``b``, which include the
standardisation of this summary and the calibration of the probabilities,

    P(finding f has state s) = sigmoid(summary(fused) · W[:, s, f] + b[s, f]),   s: positive, negative, uncertain.

Not in the paper (``docs/readings.md``). :mod:`pacer.decoding.fit_reader` fits it. Shapes: Q tokens, d width.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from safetensors.torch import save
from torch import Tensor

from pacer.commitments.anchor import MAX_PER_FIELD, POLARITIES, Anchor
from pacer.core.errors import CheckpointError
from pacer.core.io import hash_bytes, read_json, write_json
from pacer.data.findings import FINDINGS
from pacer.decoding.attributes import AttributeReader, summary
from pacer.model.checkpoint import WEIGHTS, checkpoint_hash, read_record, read_weights

READER, ABOUT = "reader.safetensors", "reader.json"
#: A finding that is not affirmed is denied or uncertain from this probability on.
STATED = 0.5
#: Parameters that the fused tokens depend on.
_TOKENS = ("router.", "interface.")
#: First column of each state in the map.
_PLACES = range(0, len(POLARITIES) * len(FINDINGS), len(FINDINGS))


class Probabilities(NamedTuple):
    """The probability of each finding, in the vocabulary's order, that a report affirms it (``positive``), denies it or
    leaves it uncertain; four decimals."""

    positive: list[float]
    negative: list[float]
    uncertain: list[float]

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return the probabilities of present and absent by finding, for JSON."""
        pairs = zip(FINDINGS, self.positive, self.negative, strict=True)
        return {finding: {"present": present, "absent": absent} for finding, present, absent in pairs}

    def commitment(self, threshold: float) -> Anchor:
        """Return the commitment that affirms findings whose probability is at least ``threshold``. Of the others those
        are denied or uncertain, whichever is more probable, with a probability of at least :data:`STATED`. A field
        keeps its most probable findings, as many as are written."""
        fields: dict[str, list[tuple[float, str]]] = {polarity: [] for polarity in POLARITIES}
        for finding, present, absent, unsure in zip(FINDINGS, *self, strict=True):
            if present >= threshold:
                fields["positive"].append((-present, finding))
            elif max(absent, unsure) >= STATED:
                fields["negative" if absent >= unsure else "uncertain"].append((-max(absent, unsure), finding))
        return Anchor.of(*([finding for _, finding in sorted(field)[:MAX_PER_FIELD]] for field in fields.values()))


@dataclass(frozen=True)
class FindingsReader:
    """A fitted reading: ``weight`` [2d, 39] and ``bias`` [39], by state, then by finding; and that of attributes."""

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
        return Probabilities(*([round(value, 4) for value in values[place:][: len(FINDINGS)]] for place in _PLACES))

    def save(self, directory: Path, about: Mapping[str, object]) -> None:
        """Write the reading and ``about``, whose ``weights`` is the hash of the weights that make the tokens."""
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / ABOUT, about)
        # safetensors' own writer creates files that only the owner can read
        (directory / READER).write_bytes(self._content())

    def _content(self) -> bytes:
        of_findings = {"weight": self.weight.contiguous(), "bias": self.bias.contiguous()}
        return save(of_findings | ({} if self.attributes is None else self.attributes.tensors()))


def read_reader(directory: Path, checkpoint: Path) -> FindingsReader | None:
    """Read the reading of a checkpoint's tokens. None: the checkpoint has changed the parts that make the tokens
    (``calibrate.trains: interface``), so that the reading does not apply.

    Raises:
        CheckpointError: the folder has no reading, or one of other weights.
    """
    if not (directory / READER).is_file():
        raise CheckpointError(f"{directory} has no {READER}; run `dvc repro findings`")
    parent, path = read_record(checkpoint).parent, checkpoint / WEIGHTS
    if parent is not None and path.exists() and any(name.startswith(_TOKENS) for name in read_weights(path)):
        return None
    if read_json(directory / ABOUT)["weights"] != (checkpoint_hash(checkpoint) if parent is None else parent.sha256):
        raise CheckpointError(f"{directory} does not match the weights of {checkpoint}; run `dvc repro findings`")
    tensors = read_weights(directory / READER)
    return FindingsReader(tensors["weight"], tensors["bias"], AttributeReader.of_tensors(tensors))
