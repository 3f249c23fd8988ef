"""A frozen parent with added modules: what the trained baselines have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from accelerate import Accelerator
from pydantic import SerializeAsAny
from torch import nn

from pacer.config import Params
from pacer.config.baselines import Adaptation
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import CheckpointError
from pacer.core.io import write_json
from pacer.model.assemble import load_model
from pacer.model.checkpoint import (
    WEIGHTS,
    CheckpointRecord,
    load_strictly,
    load_weights,
    package_versions,
    parent_reference,
    read_record,
    read_strictly,
    read_weights,
)
from pacer.model.pacer import Pacer
from pacer.training.losses import LossWeights
from pacer.training.phases import DirectProbability, Phase, fixed_route
from pacer.training.run import Inputs, Training


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


class AdaptedTraining(Training, Generic[Own]):
    """Modules added to the frozen parent ``inputs.start``, trained on all contexts with the parent's objective.

    Args:
        own: of these modules; its seed and weight decay take the place of those in ``params``.
        batch_size: examples of a micro-batch.
    """

    def __init__(
        self, name: str, own: Own, adapt: Adapt[Own], params: Params, inputs: Inputs, out: Path, batch_size: int
    ):
        assert inputs.start is not None
        parent = read_record(inputs.start)
        record = AdaptedRecord(
            phase=name,
            step=own.updates,
            model=parent.model,
            frozen=parent.frozen,
            parent=parent_reference(out, inputs.start),
            versions=package_versions(),
            adaptation=own,
        )
        fixed = None if parent.model.commit is None else fixed_route(parent.model.commit.route)
        phase = Phase(
            name=name,
            contexts=CONTEXTS,
            frontal_only=False,
            trains=("added.",),
            schedule=own.model_copy(update={"batch_size": batch_size}),
            losses=LossWeights(lambda_q=own.lambda_q, lambda_tlw=params.train.lambda_tlw),
            rho=fixed or DirectProbability(own.rho, own.rho),
            train=params.train.model_copy(update={"seed": own.seed, "weight_decay": own.weight_decay}),
            batches=params.batches,
        )
        super().__init__(phase, own, record, inputs)
        self.own, self.adapt = own, adapt

    def build(self, accelerator: Accelerator) -> Pacer:
        """The frozen parent with fresh modules."""
        torch.manual_seed(self.own.seed)
        assert self.inputs.start is not None
        dtype = torch.bfloat16 if accelerator.mixed_precision == "bf16" else torch.float32
        parent, _ = load_parent(self.inputs.start, self.inputs.backbones, dtype)
        return self.adapt(parent, self.own).to(accelerator.device)


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


def read_adaptation(checkpoint: Path, kind: type[Own]) -> Own:
    """The settings of a baseline's checkpoint.

    Raises:
        CheckpointError: it is no checkpoint of this baseline.
    """
    return read_strictly(checkpoint / ADAPTATION, kind, "a checkpoint of this baseline")


def load_adapted(
    checkpoint: Path, backbones: Path, kind: type[Own], adapt: Adapt[Own], dtype: torch.dtype = torch.float32
) -> tuple[Adapted, CheckpointRecord, Own]:
    """A trained baseline, ready for inference; its checkpoint holds the added modules alone.

    Raises:
        CheckpointError: weights do not fit, or the parent or a frozen model is not the one it was trained on.
    """
    own = read_adaptation(checkpoint, kind)
    record, _ = load_weights(checkpoint)  # makes sure that the parent is the same
    assert record.parent is not None
    parent, _ = load_parent(checkpoint / record.parent.path, backbones, dtype)
    model = adapt(parent, own)
    load_strictly(model, read_weights(checkpoint / WEIGHTS), checkpoint)
    return model.eval().requires_grad_(False), record, own
