"""LLM-RG4's released weights in PACER's modules.

LLM-RG4 saves its trainable weights as a ``.pth`` (``{"model": state, "config", "epoch", "step"}``), and Lightning saves
the whole model as a ``.ckpt`` (``{"state_dict": state, ...}``). Both hold the source interface under upstream's names
and the LoRA matrices under PEFT's; a ``.ckpt`` holds the frozen models as well, which are not taken from it. The first
stage trains the frontal interface alone, so its files (upstream's ``visual_delta_file``) hold nothing else.

    upstream                                PACER (SourceInterface)
    APPA_visual_query_tokens [1, Q, d_v]    queries [Q, d_v]
    APPA_, lateral_, text_                  frontal., lateral., prior.
      crossattention_block.*                  attention.*
      layernorm_768_1                         attention_norm
      llama_proj_1                            mix
      layernorm_768_2                         mix_norm
      llama_proj_2, llama_proj_3              up, project
      layernorm_4096_1                        project_norm
    iit_proj, iit_layernorm                 fusion, fusion_norm
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pacer.core.errors import CheckpointError

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
_ATTENTION = ("in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias")
_QUERIES = "APPA_visual_query_tokens"
#: Starts of PACER's names of what the first stage trains.
_FIRST_STAGE = ("queries", "frontal.")
_LANGUAGE = "llama_model.base_model.model."

#: Parts of a whole ``.ckpt`` that PACER takes from the frozen models themselves.
FROZEN = ("visual_encoder.", "text_encoder.", "llama_model.", "embed_tokens.", "chexbert")


@dataclass(frozen=True)
class UpstreamWeights:
    """LLM-RG4's weights under PACER's names.

    Attributes:
        interface: state of a :class:`~pacer.model.interface.SourceInterface`: complete, or of the first stage its
            queries and frontal compressor.
        lora: state of the LoRA matrices, named below the language model (``model.layers.0...lora_A.default.weight``).
        unused: names in the file that PACER has no place for, sorted; frozen models included.
        settings: ``num_queries``, ``d_vision``, ``d_hidden``, ``d_model`` and, with LoRA, ``lora_rank``, read off the
            shapes; ``lora_alpha`` and ``step`` where the file says so.
    """

    interface: dict[str, Tensor]
    lora: dict[str, Tensor]
    unused: tuple[str, ...]
    settings: dict[str, int] = field(default_factory=dict)

    @property
    def first_stage(self) -> bool:
        """Whether they are of upstream's first stage, PACER's warm-up."""
        return all(name.startswith(_FIRST_STAGE) for name in self.interface)

    @property
    def surplus(self) -> tuple[str, ...]:
        """Unused names that belong to no frozen model: a reason to look."""
        return tuple(name for name in self.unused if not name.startswith(FROZEN))


def import_llm_rg4(source: str | Path | Mapping[str, Any]) -> UpstreamWeights:
    """Read a released LLM-RG4 checkpoint.

    Args:
        source: a ``.pth`` or ``.ckpt`` file, or what such a file holds (also a bare state dict).

    Raises:
        CheckpointError: the file is missing, damaged, or something else; names of the interface are missing (all are
            listed), or shapes do not fit each other.
    """
    origin, content = ("the state dict", source) if isinstance(source, Mapping) else (str(source), _load(Path(source)))
    state = _state(content, origin)
    interface, used = _interface(state, origin)
    lora = {}
    for name, tensor in state.items():
        if ".lora_" in name and name.startswith(_LANGUAGE):
            own = name.removeprefix(_LANGUAGE)
            for matrix in ("lora_A", "lora_B"):
                own = own.replace(f"{matrix}.weight", f"{matrix}.default.weight")
            lora[own] = tensor
            used.add(name)
    settings = _settings(interface, lora, content)
    return UpstreamWeights(interface, lora, tuple(sorted(set(state) - used)), settings)


def interface_names() -> dict[str, str]:
    """``{PACER's name: upstream's name}`` of every tensor of the source interface."""
    names = {"queries": _QUERIES}
    for theirs, ours in _SOURCES.items():
        for layer, own in _LAYERS.items():
            for part in _ATTENTION if own == "attention" else ("weight", "bias"):
                names[f"{ours}.{own}.{part}"] = f"{theirs}_{layer}.{part}"
    for layer, own in (("iit_proj", "fusion"), ("iit_layernorm", "fusion_norm")):
        names |= {f"{own}.{part}": f"{layer}.{part}" for part in ("weight", "bias")}
    return names


def _interface(state: Mapping[str, Tensor], origin: str) -> tuple[dict[str, Tensor], set[str]]:
    names = interface_names()
    first = {ours: theirs for ours, theirs in names.items() if ours.startswith(_FIRST_STAGE)}
    if state.keys().isdisjoint(set(names.values()) - set(first.values())) and not any(".lora_" in n for n in state):
        names = first
    missing = sorted(theirs for theirs in names.values() if theirs not in state)
    if missing:
        if {theirs for theirs in names.values() if theirs.startswith("APPA_")} <= set(missing):
            raise CheckpointError(f"{origin} is no checkpoint of LLM-RG4: it holds {', '.join(sorted(state)[:5])}")
        raise CheckpointError(f"{origin} is an incomplete checkpoint of LLM-RG4. Missing: {', '.join(missing)}")
    interface = {ours: state[theirs] for ours, theirs in names.items()}
    queries = interface["queries"]
    if queries.ndim != 3 or queries.shape[0] != 1:
        raise CheckpointError(f"{origin}: {_QUERIES} has shape {list(queries.shape)}, expected [1, queries, width]")
    interface["queries"] = queries[0]
    return interface, set(names.values())


def _settings(interface: dict[str, Tensor], lora: dict[str, Tensor], content: Mapping[str, Any]) -> dict[str, int]:
    settings = {
        "num_queries": interface["queries"].shape[0],
        "d_vision": interface["queries"].shape[1],
        "d_hidden": interface["frontal.up.weight"].shape[0],
        "d_model": interface["frontal.project.weight"].shape[0],
    }
    ranks = {tensor.shape[0] for name, tensor in lora.items() if ".lora_A." in name}
    if len(ranks) > 1:
        raise CheckpointError(f"the LoRA matrices have different ranks: {', '.join(map(str, sorted(ranks)))}")
    if ranks:
        settings["lora_rank"] = ranks.pop()
    saved = content.get("config") or content.get("hyper_parameters") or {}
    saved = vars(saved) if isinstance(saved, argparse.Namespace) else saved
    alpha = saved.get("llm_alpha") if isinstance(saved, Mapping) else None
    step = content.get("step", content.get("global_step"))
    settings |= {name: int(value) for name, value in (("lora_alpha", alpha), ("step", step)) if value is not None}
    return settings


def _state(content: Any, origin: str) -> dict[str, Tensor]:
    """The named tensors of a file's content."""
    for key in ("model", "state_dict"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    if not isinstance(content, Mapping) or not content:
        raise CheckpointError(f"{origin} holds {type(content).__name__}, expected named tensors")
    strange = [str(name) for name, value in content.items() if not isinstance(value, Tensor)]
    if strange:
        raise CheckpointError(
            f"{origin} is no checkpoint of LLM-RG4: besides tensors it holds {', '.join(strange[:5])}"
        )
    return dict(content)


#: The only classes beside tensors that the released files hold.
_HARMLESS: list[Any] = [
    argparse.Namespace,
    (dict, "lightning.fabric.utilities.data.AttributeDict"),
    (dict, "lightning_fabric.utilities.data.AttributeDict"),
    (dict, "pytorch_lightning.utilities.parsing.AttributeDict"),
    (dict, "lightning.pytorch.utilities.parsing.AttributeDict"),
]


def _load(path: Path) -> Mapping[str, Any]:
    """The content of a file, read without running any code that it may hold."""
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist; download LLM-RG4's released weights and name the file")
    try:
        with torch.serialization.safe_globals(_HARMLESS):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # a damaged file raises anything
        raise CheckpointError(
            f"{path} is not a complete PyTorch file, or holds more than weights and settings ({type(error).__name__}); "
            "download it again"
        ) from None
