"""A frozen parent with added modules: what SimMLM and RAGPT have in common."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn

from pacer.config import Params, validated
from pacer.config.baselines import Adaptation
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import CheckpointError
from pacer.model.assemble import load_model
from pacer.model.checkpoint import (
    RECORD,
    WEIGHTS,
    CheckpointRecord,
    load_strictly,
    load_weights,
    package_versions,
    parent_reference,
    read_record,
    read_weights,
)
from pacer.model.pacer import Pacer
from pacer.training.examples import Examples
from pacer.training.losses import LossWeights
from pacer.training.phases import DirectProbability, Phase, fixed_route
from pacer.training.run import Inputs, OpenLog, run_training


class Adapted(Pacer):
    """A trained model (LoRA merged) whose parameters are all frozen except those of ``added``.

    Args:
        parent: shares its modules with this one.
        settings: of the baseline.

    Attributes:
        name: of the baseline.
        settings_type: the type of its settings.
    """

    name: ClassVar[str]
    settings_type: ClassVar[type[Adaptation]]

    def __init__(self, parent: Pacer, settings: Any):
        super().__init__(parent.language, parent.endpoint_norm, parent.router, parent.interface)
        self.requires_grad_(False)
        self.settings = settings
        self.added: Any = self.new_modules(settings)

    def new_modules(self, settings: Any) -> nn.Module:
        """Return the modules that the baseline adds, in their state before training."""
        raise NotImplementedError


AnyBaseline = TypeVar("AnyBaseline", bound=Adapted)


def train_adapted(
    baseline: type[Adapted],
    settings: Adaptation,
    params: Params,
    inputs: Inputs,
    out: Path,
    open_log: OpenLog,
    make_examples: Callable[..., Examples],
    *,
    made_with: str | None = None,
    **columns: Any,
) -> None:
    """Train modules added to the frozen parent ``inputs.start`` and publish them as ``out``; a
    stopped run continues.

    Training uses all contexts and the parent's routes. Seed and weight decay are those of
    ``settings``, not ``params``.

    Args:
        make_examples: called like :class:`~pacer.training.examples.Examples`.
        made_with: hash of RAGPT's bank.
        columns: other values of the phase.
    """
    assert inputs.start is not None
    start = inputs.start
    parent = read_record(inputs.start)
    record = CheckpointRecord(
        phase=baseline.name,
        step=settings.updates,
        model=parent.model,
        frozen=parent.frozen,
        parent=parent_reference(out, start),
        versions=package_versions(),
        baseline={"settings": settings.model_dump(), "made_with": made_with},
    )
    fixed = None if parent.model.commit is None else fixed_route(parent.model.commit.route)
    phase = Phase(
        name=baseline.name,
        contexts=CONTEXTS,
        frontal_only=False,
        trained_prefixes=("added.",),
        schedule=settings,
        losses=LossWeights(settings.lambda_q, params.train.lambda_tlw),
        rho=fixed or DirectProbability(settings.rho, settings.rho),
        train=params.train.model_copy(
            update={"seed": settings.seed, "weight_decay": settings.weight_decay}
        ),
        batches=params.batches.model_copy(update={"positive_repeats": 1}),
    )

    def build(dtype: torch.dtype) -> Adapted:
        torch.manual_seed(settings.seed)
        return baseline(load_model(start, inputs.backbones, dtype)[0], settings)

    run_training(replace(phase, **columns), record, inputs, out, open_log, build, make_examples)


def load_adapted(
    baseline: type[AnyBaseline], checkpoint: Path, backbones: Path, made_with: str | None = None
) -> tuple[AnyBaseline, CheckpointRecord]:
    """Load a trained baseline for inference; its checkpoint holds only the added modules. Raises a
    CheckpointError if its weights do not fit, or the parent, a frozen model or RAGPT's bank (hash
    ``made_with``) is not the one of its training; a ConfigError if its settings are of another
    version."""
    record, _ = load_weights(checkpoint)  # checks that the parent is the same
    assert record.baseline is not None and record.parent is not None
    if record.baseline["made_with"] != made_with:
        raise CheckpointError(
            f"{checkpoint} was trained with a different bank; train {baseline.name} again"
        )
    settings = validated(
        record.baseline["settings"], f"{checkpoint / RECORD}: baseline", baseline.settings_type
    )
    parent, _ = load_model(
        checkpoint / record.parent.path, backbones, getattr(torch, record.precision)
    )
    model = baseline(parent, settings)
    load_strictly(model, read_weights(checkpoint / WEIGHTS), checkpoint)
    return model.eval().requires_grad_(False), record
