"""Checkpoints: the trainable weights only, with a record that describes them and the frozen models
they belong to.

The record also has the settings with which the model is built and decoded; later stages read them
there.
"""

import os
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import safetensors.torch
import torch
from pydantic import Field
from torch import Tensor

from pacer.config import Natural, Params, Positive, Strict, validated
from pacer.config.model import Calibrator, Commit, Interface, Lora, Prompt, Refine, Trajectory
from pacer.core.errors import CheckpointError, ConfigError, DataError
from pacer.core.io import hash_file, read_json, write_json

WEIGHTS = "model.safetensors"
RECORD = "config.json"
PACKAGES = ("torch", "transformers", "peft", "safetensors")


class TappedDepths(Strict):
    """The encoder blocks whose states the model reads, counted from 1."""

    depths: Annotated[list[Positive], Field(min_length=1)]


class ModelSpecification(Strict):
    """The groups of ``params.yaml`` that define a model.

    ``lora``, ``prompt`` and ``commit`` are None in the warm-up; ``calibrate`` is None in the
    warm-up and the parent.
    """

    features: TappedDepths
    refine: Refine
    interface: Interface
    trajectory: Trajectory
    lora: Lora | None = None
    prompt: Prompt | None = None
    commit: Commit | None = None
    calibrate: Calibrator | None = None

    @property
    def commits(self) -> bool:
        """Whether reports are decoded commitment first."""
        return self.commit is not None and self.commit.route != "direct"

    @property
    def sides(self) -> bool:
        """Whether the model's commitments state the sides of findings."""
        return self.commit is not None and bool(self.commit.attributes)

    def written(self) -> dict[str, Any]:
        """Return the form on disk, without the groups that are None."""
        return {name: group for name, group in self.model_dump().items() if group is not None}


def specification_of(phase: str, params: Params) -> ModelSpecification:
    """Return the specification of the model of phase ``warmup``, ``parent`` or ``calibrate``."""
    calibrator = None
    if phase == "calibrate" and params.calibrate.trains == "calibrator":
        settings = params.calibrate.model_dump(include=set(Calibrator.model_fields))
        calibrator = Calibrator(**settings)
    instructed = phase != "warmup"
    return ModelSpecification(
        features=TappedDepths(depths=params.features.depths),
        refine=params.refine,
        interface=params.interface,
        trajectory=params.trajectory,
        lora=params.lora if instructed else None,
        prompt=params.prompt if instructed else None,
        commit=params.commit if instructed else None,
        calibrate=calibrator,
    )


class ParentReference(Strict):
    """The parent that a checkpoint needs: its path, relative to the checkpoint, and the hash of its
    weights."""

    path: str
    sha256: str


class CheckpointRecord(Strict):
    """The description of a checkpoint."""

    #: warmup | parent | calibrate, or the name of a baseline.
    phase: str
    #: Number of optimiser updates.
    step: Natural
    model: ModelSpecification
    #: Fingerprint of each frozen model.
    frozen: dict[str, str]
    parent: ParentReference | None
    #: Versions of the packages at training time.
    versions: dict[str, str]
    #: Type of the frozen language model in training and in decoding.
    precision: Literal["float32", "bfloat16"] = "float32"
    #: ``settings`` of what a baseline adds to its parent, and the hash of its other inputs
    #: (``made_with``); None: not a baseline.
    baseline: dict[str, Any] | None = None

    def write(self, directory: Path) -> None:
        """Write the record into a checkpoint's directory."""
        content = self.model_dump(exclude={"baseline"} if self.baseline is None else None)
        write_json(directory / RECORD, content | {"model": self.model.written()})


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that weights depend on."""
    return {name: version(name) for name in PACKAGES}


def save_checkpoint(
    directory: str | Path, weights: dict[str, Tensor], record: CheckpointRecord
) -> None:
    """Write weights and record into ``directory`` (an empty or new folder)."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    contiguous = {
        name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()
    }
    safetensors.torch.save_file(contiguous, target / WEIGHTS, metadata={"format": "pt"})
    record.write(target)
    # safetensors creates files that only their owner can read
    shutil.copymode(target / RECORD, target / WEIGHTS)


def checkpoint_hash(directory: str | Path) -> str:
    """Return the SHA-256 of the weights."""
    return hash_file(Path(directory) / WEIGHTS)


def weights_hash(directory: str | Path) -> str:
    """Return the SHA-256 of the checkpoint's own weights, or of its parent's if it has none."""
    parent = read_record(directory).parent
    path = Path(directory) / WEIGHTS
    return hash_file(path) if parent is None or path.exists() else parent.sha256


def parent_reference(out: str | Path, parent: str | Path) -> ParentReference:
    """Return the ``parent`` entry for a record in ``out``."""
    return ParentReference(path=os.path.relpath(parent, out), sha256=checkpoint_hash(parent))


def read_record(directory: str | Path) -> CheckpointRecord:
    """Read the record of a checkpoint. Raises a CheckpointError if the folder is not a checkpoint
    of this software; the message names unknown and missing keys."""
    path = Path(directory) / RECORD
    if not path.exists():
        raise CheckpointError(f"{path.parent} is not a PACER checkpoint: {path.name} is missing")
    try:
        return validated(
            read_json(path), f"{path} is not the record of a PACER checkpoint", CheckpointRecord
        )
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except ConfigError as error:
        raise CheckpointError(
            f"{error}; use the version of PACER that wrote it, or train the model again"
        ) from None


def load_weights(directory: str | Path) -> tuple[CheckpointRecord, dict[str, Tensor]]:
    """Read the record and all trainable weights of a checkpoint, its parent's included. Raises a
    CheckpointError if a file is missing, or the parent is not the one this checkpoint was trained
    on."""
    directory = Path(directory)
    record = read_record(directory)
    weights: dict[str, Tensor] = {}
    if record.parent is not None:
        parent = directory / record.parent.path
        if not (parent / WEIGHTS).exists() or checkpoint_hash(parent) != record.parent.sha256:
            raise CheckpointError(
                f"{parent} is not the model that {directory} started from; train {directory} again"
            )
        weights |= load_weights(parent)[1]
    if (directory / WEIGHTS).exists():
        weights |= read_weights(directory / WEIGHTS)
    if not weights:
        raise CheckpointError(f"{directory} has neither {WEIGHTS} nor a parent; restore its files")
    return record, weights


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors in a file. Raises a CheckpointError if the file is damaged."""
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(
            f"{path} cannot be read as weights ({error}); regenerate it or copy it again"
        ) from None


def check_frozen(record: CheckpointRecord, frozen: dict[str, str], origin: str | Path) -> None:
    """Check that the frozen models are those the checkpoint was trained on. Raises a
    CheckpointError if one differs; the message names it."""
    for name, expected in record.frozen.items():
        if frozen.get(name) != expected:
            raise CheckpointError(
                f"{origin} was trained with a different {name} backbone (fingerprint "
                f"{expected[:12]}, here {str(frozen.get(name))[:12]}); restore that backbone or "
                "train again"
            )


def load_strictly(module: torch.nn.Module, weights: dict[str, Tensor], origin: str | Path) -> None:
    """Copy ``weights`` into ``module``. Names and shapes must match; only frozen parameters may be
    missing. Raises a CheckpointError if names or shapes differ; the message lists them."""
    parameters = dict(module.named_parameters())
    unknown = sorted(set(weights) - set(parameters))
    missing = sorted(
        name for name, p in parameters.items() if p.requires_grad and name not in weights
    )
    shapes = [n for n in weights if n in parameters and parameters[n].shape != weights[n].shape]
    problems = [
        f"{title}: {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"
        for title, names in (
            ("unknown weights", unknown),
            ("missing weights", missing),
            ("different shapes", shapes),
        )
        if names
    ]
    if problems:
        raise CheckpointError(f"{origin} does not match this model: {'; '.join(problems)}")
    with torch.no_grad():
        for name, tensor in weights.items():
            parameters[name].copy_(tensor)
