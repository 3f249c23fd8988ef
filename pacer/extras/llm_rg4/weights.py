"""LLM-RG4's released weights for PACER's modules: as a checkpoint to decode with, or to start the
parent phase from.

LLM-RG4 saves its trainable weights as a ``.pth`` (``{"model": state, "config", "epoch", "step"}``),
and Lightning saves the complete model as a ``.ckpt`` (``{"state_dict": state, ...}``). Both hold
the source interface under upstream's names and the LoRA matrices under PEFT's. A ``.ckpt`` also
holds the frozen models, which are ignored here. Only files of its second stage are complete: the
first trains only the frontal interface.
"""

import argparse
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pacer.config import Params
from pacer.config.model import Commit
from pacer.core.errors import CheckpointError
from pacer.core.io import atomic_directory
from pacer.model.assemble import build_model, frozen_fingerprints
from pacer.model.checkpoint import (
    CheckpointRecord,
    load_strictly,
    package_versions,
    save_checkpoint,
    specification_of,
)

_SOURCES = {"APPA": "frontal", "lateral": "lateral", "text": "prior"}
_LAYERS = {
    "crossattention_block": "attention",
    "layernorm_768_1": "attention_norm",
    "llama_proj_1": "mix",
    "layernorm_768_2": "mix_norm",
    "llama_proj_2": "up",
    "llama_proj_3": "project",
    "layernorm_4096_1": "project_norm",
}
_ATTENTION = (
    "in_proj_weight",
    "in_proj_bias",
    "bias_k",
    "bias_v",
    "out_proj.weight",
    "out_proj.bias",
)
_QUERIES = "APPA_visual_query_tokens"
_LANGUAGE = "llama_model.base_model.model."

#: Parts of a complete ``.ckpt`` that PACER reads from the frozen models instead.
FROZEN = ("visual_encoder.", "text_encoder.", "llama_model.", "embed_tokens.", "chexbert")

#: The only classes, besides tensors, in the released files.
_HARMLESS: list[Any] = [
    argparse.Namespace,
    (dict, "lightning.fabric.utilities.data.AttributeDict"),
    (dict, "lightning_fabric.utilities.data.AttributeDict"),
    (dict, "pytorch_lightning.utilities.parsing.AttributeDict"),
    (dict, "lightning.pytorch.utilities.parsing.AttributeDict"),
]


@dataclass(frozen=True)
class UpstreamWeights:
    """LLM-RG4's weights under PACER's names."""

    #: State of a :class:`~pacer.model.interface.SourceInterface`.
    interface: dict[str, Tensor]
    #: State of the LoRA matrices, named below the language model
    #: (``model.layers.0...lora_A.default.weight``).
    lora: dict[str, Tensor]
    #: Sorted names in the file that PACER does not use and that belong to no frozen model.
    unused: tuple[str, ...]
    #: LoRA's alpha; None if the file does not contain it.
    alpha: int | None
    #: Number of updates; 0 if the file does not contain it.
    step: int


def import_llm_rg4(source: str | Path | Mapping[str, Any]) -> UpstreamWeights:
    """Read a released LLM-RG4 checkpoint. Raises a CheckpointError if the file is missing, damaged
    or not such a checkpoint, or weights of the interface are missing (the message lists all of
    them).

    Args:
        source: a ``.pth`` or ``.ckpt`` file, or the content of one, or a plain state dict.
    """
    if isinstance(source, Mapping):
        origin = "the state dict"
        content = source
    else:
        origin = str(source)
        content = _load(Path(source))
    state = _state(content, origin)
    names = interface_names()
    missing = sorted(theirs for theirs in names.values() if theirs not in state)
    if len(missing) == len(names):
        raise CheckpointError(
            f"{origin} is not an LLM-RG4 checkpoint; it contains {', '.join(sorted(state)[:5])}"
        )
    if missing:
        raise CheckpointError(
            f"{origin} is an incomplete LLM-RG4 checkpoint. Missing: {', '.join(missing)}"
        )
    interface = {ours: state[theirs] for ours, theirs in names.items()}
    interface["queries"] = interface["queries"].squeeze(0)
    adapted = [name for name in state if name.startswith(_LANGUAGE) and ".lora_" in name]
    lora = {}
    for name in adapted:
        inside = name.removeprefix(_LANGUAGE)
        lora[re.sub(r"(lora_[AB])\.weight", r"\1.default.weight", inside)] = state[name]
    used = {*names.values(), *adapted}
    if unsound := sorted(name for name in used if not _is_sound(state[name])):
        raise CheckpointError(
            f"{origin} is damaged: {', '.join(unsound[:5])} must be finite floating-point "
            "numbers; download it again"
        )
    unused = tuple(
        sorted(name for name in state if name not in used and not name.startswith(FROZEN))
    )
    config = content.get("config") or content.get("hyper_parameters") or {}
    settings = vars(config) if isinstance(config, argparse.Namespace) else config
    if not isinstance(settings, Mapping):
        raise CheckpointError(
            f"{origin} is damaged: its settings are of type {type(settings).__name__}, not a "
            "mapping"
        )
    alpha = settings.get("llm_alpha")
    step = content.get("step", content.get("global_step", 0))
    for name, number in (("llm_alpha", alpha or 0), ("step", step)):
        if type(number) is not int or number < 0:
            raise CheckpointError(f"{origin} is damaged: its {name} is not a whole number")
    return UpstreamWeights(interface, lora, unused, alpha, step)


def _is_sound(weights: Tensor) -> bool:
    """Whether weights are finite floating-point numbers in a dense tensor."""
    is_plain = weights.layout == torch.strided and not weights.is_meta
    return is_plain and weights.is_floating_point() and bool(weights.isfinite().all())


def interface_names() -> dict[str, str]:
    """Return ``{PACER's name: upstream's name}`` for every tensor of the source interface."""
    names = {"queries": _QUERIES}
    for theirs, ours in _SOURCES.items():
        for layer, place in _LAYERS.items():
            for part in _ATTENTION if place == "attention" else ("weight", "bias"):
                names[f"{ours}.{place}.{part}"] = f"{theirs}_{layer}.{part}"
    for layer, place in (("iit_proj", "fusion"), ("iit_layernorm", "fusion_norm")):
        names |= {f"{place}.{part}": f"{layer}.{part}" for part in ("weight", "bias")}
    return names


def _state(content: Any, origin: str) -> dict[str, Tensor]:
    """Return the named tensors in a file's content."""
    for key in ("model", "state_dict"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    if not isinstance(content, Mapping) or not content:
        raise CheckpointError(f"{origin} contains {type(content).__name__}; expected named tensors")
    if not all(isinstance(name, str) for name in content):
        raise CheckpointError(f"{origin} is not an LLM-RG4 checkpoint: not all names are text")
    if strange := [str(name) for name, value in content.items() if not isinstance(value, Tensor)]:
        names = ", ".join(strange[:5])
        raise CheckpointError(
            f"{origin} is not an LLM-RG4 checkpoint: besides tensors, it contains {names}"
        )
    return dict(content)


def _load(path: Path) -> Mapping[str, Any]:
    """Read the content of a file without running any code in it."""
    if not path.is_file():
        raise CheckpointError(
            f"{path} does not exist; download LLM-RG4's released weights and pass the file's path"
        )
    try:
        with torch.serialization.safe_globals(_HARMLESS):
            return torch.load(
                path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
            )
    except Exception as error:  # a damaged file can raise anything
        raise CheckpointError(
            f"{path} is not a complete PyTorch file, or contains more than weights and settings "
            f"({type(error).__name__}); download it again"
        ) from None


def adopt_llm_rg4(source: Path, params: Params, backbones: Path, out: Path) -> UpstreamWeights:
    """Write LLM-RG4's weights to ``out`` as a checkpoint without Refine, Commit and Calibrate.

    The parent checkpoint decodes as LLM-RG4 does: direct reports from the encoder's endpoint, long
    prompts cut at the end. As ``parent.start`` it initialises source interface, fusion and LoRA;
    Refine starts as the identity. Raises a CheckpointError if the file is not such a checkpoint, or
    does not fit the parameters; the message lists the differences.

    Args:
        params: ``interface`` and ``lora`` must match the weights; other groups only go into the
            record.
        backbones: the frozen models that the weights were trained with.
    """
    weights = import_llm_rg4(source)
    if weights.alpha not in (None, params.lora.alpha):  # no shape depends on it
        raise CheckpointError(
            f"{source}: lora.alpha is {params.lora.alpha}, but the file has {weights.alpha}"
        )
    specification = specification_of("parent", params).model_copy(
        update={
            "refine": params.refine.model_copy(update={"variant": "endpoint"}),
            "prompt": params.prompt.model_copy(update={"truncation": "upstream"}),
            "commit": Commit(route="direct"),
        }
    )
    model = build_model(backbones, specification)
    state = {f"interface.{name}": tensor.float() for name, tensor in weights.interface.items()}
    state |= {f"language.{name}": tensor.float() for name, tensor in weights.lora.items()}
    load_strictly(model, state, source)
    record = CheckpointRecord(
        phase="parent",
        step=weights.step,
        model=specification,
        frozen=frozen_fingerprints(backbones),
        parent=None,
        versions=package_versions(),
        precision="bfloat16",
    )
    with atomic_directory(out) as directory:
        save_checkpoint(directory, state, record)
    return weights
