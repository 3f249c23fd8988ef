"""A frozen parent with added modules: what the trained baselines have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
import torch
from pydantic import SerializeAsAny
from torch import nn

from pacer.core.errors import CheckpointError, ConfigError
from pacer.core.io import read_json, write_json
from pacer.model.assemble import load_model
from pacer.model.checkpoint import (
    WEIGHTS,
    CheckpointRecord,
    load_strictly,
    load_weights,
    package_versions,
    parent_reference,
    read_record,
)
from pacer.model.pacer import Pacer
from pacer.params import validated
from pacer.params.baselines import Adaptation


class Adapted(Pacer):
    """A trained model (LoRA merged) whose parameters are all frozen but those of ``added``.

    Args:
        parent: shares its modules with this one. added: the modules that a baseline brings.
    """

    def __init__(self, parent: Pacer, added: nn.Module):
        super().__init__(parent.language, parent.endpoint_norm, parent.router, parent.interface)
        self.requires_grad_(False)
        self.added: Any = added.requires_grad_(True)


#: File of a baseline's settings, beside the record of its checkpoint.
ADAPTATION = "adaptation.json"
Own = TypeVar("Own", bound=Adaptation)
#: Puts a baseline's fresh modules around a parent.
Adapt = Callable[[Pacer, Own], Adapted]


class AdaptedRecord(CheckpointRecord):
    """What a baseline's checkpoint is: the record of its parent, and the settings of what was added."""

    adaptation: SerializeAsAny[Adaptation]

    def write(self, directory: Path) -> None:
        """Write record and settings into the checkpoint's directory."""
        super().write(directory)
        write_json(directory / ADAPTATION, self.adaptation.model_dump())


def load_parent(
    checkpoint: Path, backbones: Path, dtype: torch.dtype = torch.float32
) -> tuple[Pacer, CheckpointRecord]:
    """The frozen parent, ready for inference.

    Raises:
        CheckpointError: it is not the parent phase's, or does not fit the frozen models.
    """
    phase = read_record(checkpoint).phase
    if phase != "parent":
        raise CheckpointError(f"{checkpoint} is a checkpoint of {phase}; baselines adapt one of the parent phase")
    return load_model(checkpoint, backbones, dtype)


def adapted_record(name: str, adaptation: Adaptation, parent: Path, out: Path) -> AdaptedRecord:
    """What the checkpoint ``out`` of baseline ``name`` will be."""
    record = read_record(parent)
    return AdaptedRecord(
        phase=name,
        step=adaptation.updates,
        model=record.model,
        frozen=record.frozen,
        parent=parent_reference(out, parent),
        versions=package_versions(),
        adaptation=adaptation,
    )


def read_adaptation(checkpoint: Path, kind: type[Own]) -> Own:
    """The settings of a baseline's checkpoint.

    Raises:
        CheckpointError: it is no checkpoint of this baseline.
    """
    path = checkpoint / ADAPTATION
    if not path.exists():
        raise CheckpointError(f"{checkpoint} is not the checkpoint of a baseline: it has no {ADAPTATION}")
    try:
        return validated(read_json(path), f"{path} is not of this baseline", kind)
    except ConfigError as error:
        raise CheckpointError(f"{error}; train it again") from None


def load_adapted(
    checkpoint: Path, backbones: Path, kind: type[Own], adapt: Adapt[Own], dtype: torch.dtype = torch.float32
) -> tuple[Adapted, CheckpointRecord, Own]:
    """A trained baseline, ready for inference; its checkpoint holds the added modules alone.

    Raises:
        CheckpointError: weights do not fit, or the parent or a frozen model is not the one it was trained on.
    """
    own = read_adaptation(checkpoint, kind)
    record, _ = load_weights(checkpoint)  # makes sure that the parent is the same
    if record.parent is None:
        raise CheckpointError(f"{checkpoint} is a checkpoint of {record.phase}, not of an adapted parent")
    parent, _ = load_parent(checkpoint / record.parent.path, backbones, dtype)
    model = adapt(parent, own)
    load_strictly(model, safetensors.torch.load_file(checkpoint / WEIGHTS), checkpoint)
    return model.eval().requires_grad_(False), record, own
