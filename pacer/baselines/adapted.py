"""A frozen parent with added modules: what the trained baselines have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn

from pacer.core.errors import CheckpointError
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


class Adapted(Pacer):
    """A trained model (LoRA merged) whose parameters are all frozen but those of ``added``.

    Args:
        parent: shares its modules with this one. added: the modules that a baseline brings.
    """

    def __init__(self, parent: Pacer, added: nn.Module):
        super().__init__(parent.language, parent.endpoint_norm, parent.router, parent.interface)
        self.requires_grad_(False)
        self.added: Any = added.requires_grad_(True)


#: Puts a baseline's fresh modules around a parent, by the settings that its checkpoint records.
Adapt = Callable[[Pacer, dict[str, Any]], Adapted]


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


def adapted_record(name: str, settings: dict[str, Any], parent: Path, out: Path) -> CheckpointRecord:
    """What the checkpoint ``out`` of baseline ``name`` will be: the parent's record with ``settings`` under its name,
    and the parent's hash."""
    record = read_record(parent)
    return replace(
        record,
        phase=name,
        step=settings["updates"],
        model=record.model | {name: settings},
        parent=parent_reference(out, parent),
        versions=package_versions(),
    )


def load_adapted(
    checkpoint: Path, backbones: Path, adapt: Adapt, dtype: torch.dtype = torch.float32
) -> tuple[Adapted, CheckpointRecord]:
    """A trained baseline, ready for inference; its checkpoint holds the added modules alone.

    Raises:
        CheckpointError: weights do not fit, or the parent or a frozen model is not the one it was trained on.
    """
    record, _ = load_weights(checkpoint)  # makes sure that the parent is the same
    if record.parent is None or record.phase not in record.model:
        raise CheckpointError(f"{checkpoint} is a checkpoint of {record.phase}, not of an adapted parent")
    parent, _ = load_parent(checkpoint / record.parent["path"], backbones, dtype)
    model = adapt(parent, record.model[record.phase])
    load_strictly(model, safetensors.torch.load_file(checkpoint / WEIGHTS), checkpoint)
    return model.eval().requires_grad_(False), record
