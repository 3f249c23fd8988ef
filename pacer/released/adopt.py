"""LLM-RG4's released weights as a checkpoint of this software, to decode with or to start the parent phase from."""

from __future__ import annotations

from pathlib import Path

import torch

from pacer.config import Params
from pacer.config.model import Commit
from pacer.core.errors import CheckpointError
from pacer.core.io import atomic_directory
from pacer.model.assemble import build_model, frozen_fingerprints
from pacer.model.checkpoint import CheckpointRecord, load_strictly, package_versions, save_checkpoint
from pacer.model.specification import specification_of
from pacer.model.upstream import UpstreamWeights, import_llm_rg4


def adopt_llm_rg4(source: Path, params: Params, backbones: Path, out: Path) -> UpstreamWeights:
    """Write LLM-RG4's weights to ``out`` as a checkpoint without Refine, Commit and Calibrate.

    Of its second stage it is a parent: it decodes as LLM-RG4 does (direct reports from the encoder's endpoint, long
    prompts cut at their end), and as ``parent.start`` it gives the parent phase its source interface, fusion and LoRA.
    Of its first stage it is a warm-up, which gives the parent phase its frontal interface. Either way Refine starts as
    the identity.

    Args:
        params: ``interface`` and, for the second stage, ``lora`` must describe the weights; other groups go into the
            record.
        backbones: the frozen models that the weights were trained with.

    Raises:
        CheckpointError: the file is something else, or its shapes do not fit the parameters; differences are listed.
    """
    weights = import_llm_rg4(source)
    phase = "warmup" if weights.first_stage else "parent"
    specification = specification_of(phase, params).model_copy(
        update={
            "refine": params.refine.model_copy(update={"variant": "endpoint"}),
            "prompt": None if weights.first_stage else params.prompt.model_copy(update={"truncation": "upstream"}),
            "commit": None if weights.first_stage else Commit(route="direct"),
            "quantization": None,  # whatever the settings say: the weights were trained beside bfloat16 matrices
        }
    )
    _compare(weights, params, source)
    model = build_model(backbones, specification)
    state = {f"interface.{name}": tensor.float() for name, tensor in weights.interface.items()}
    state |= {f"language.{name}": tensor.float() for name, tensor in weights.lora.items()}
    for name, parameter in model.named_parameters():  # what must be there: the interface, which is whole, and LoRA
        parameter.requires_grad_(name in state or "lora_" in name)
    load_strictly(model, state, source)
    record = CheckpointRecord(
        phase=phase,
        step=weights.settings.get("step", 0),
        model=specification,
        frozen=frozen_fingerprints(backbones),
        parent=None,
        versions=package_versions(),
    )
    with atomic_directory(out) as directory:
        save_checkpoint(directory, state, record)
    return weights


def _compare(weights: UpstreamWeights, params: Params, source: Path) -> None:
    """Make sure that the parameters describe the weights, where shapes alone would not say what to change."""
    found = weights.settings
    wanted: dict[str, tuple[int | None, int]] = {
        "interface.num_queries": (found["num_queries"], params.interface.num_queries),
        "interface.d_hidden": (found["d_hidden"], params.interface.d_hidden),
    }
    if not weights.first_stage:
        wanted |= {
            "lora.rank": (found.get("lora_rank"), params.lora.rank),
            "lora.alpha": (found.get("lora_alpha", params.lora.alpha), params.lora.alpha),
        }
    wrong = [f"{key} is {own}, the file has {theirs}" for key, (theirs, own) in wanted.items() if theirs != own]
    if wrong:
        raise CheckpointError(f"{source} does not fit the parameters: {'; '.join(wrong)}")
    if not all(torch.isfinite(tensor).all() for tensor in weights.interface.values()):
        raise CheckpointError(f"{source} holds weights that are not finite")
