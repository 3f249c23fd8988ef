"""The type that the frozen language model computes in: the recorded one, or where nothing names one the faster one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pacer.backbones.pointers import resolve
from pacer.core.devices import gains_from_bfloat16
from pacer.core.errors import BackboneError
from pacer.core.io import read_json
from pacer.model.checkpoint import read_record

#: Size from which a language model is about twice as fast in bfloat16 on CPUs that have it (docs/training.md).
CPU_BFLOAT16_PARAMETERS = 10_000_000


def automatic_dtype(device: str | torch.device, parameters: float) -> torch.dtype:
    """bfloat16 on a GPU that has it, and on a CPU that gains from it where the language model has at least
    :data:`CPU_BFLOAT16_PARAMETERS` ``parameters``; else float32."""
    if torch.device(device).type == "cuda":
        half = torch.cuda.is_bf16_supported(False)
    else:
        half = parameters >= CPU_BFLOAT16_PARAMETERS and gains_from_bfloat16()
    return torch.bfloat16 if half else torch.float32


def recorded_dtype(checkpoint: str | Path, backbones: str | Path, device: str | torch.device) -> torch.dtype:
    """The type that a checkpoint's language model was trained in, so that what is decoded is what was trained.

    A checkpoint that does not say so: :func:`automatic_dtype` of the device.
    """
    precision = read_record(checkpoint).precision
    if precision is None:
        return automatic_dtype(device, language_parameters(backbones))
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]


def language_parameters(backbones: str | Path) -> int:
    """How many parameters the language model has, by its configuration.

    Raises:
        BackboneError: that is not one of a model such as Llama.
    """
    path = resolve(Path(backbones) / "language") / "config.json"
    try:
        return count_parameters(read_json(path))
    except (KeyError, TypeError, ArithmeticError):
        raise BackboneError(f"{path} cannot be read as that of a model such as Llama; fetch it again") from None


def count_parameters(config: Mapping[str, Any]) -> int:
    """How many a model such as Llama of this ``config.json`` has in its matrices."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    inner = heads * (config.get("head_dim") or width // heads)  # of all heads; Qwen's and Gemma's differ from the width
    shared = 2 * width * inner * (config.get("num_key_value_heads") or heads) // heads  # keys and values
    layer = 2 * width * inner + shared + 3 * width * config["intermediate_size"]
    embeddings = 1 if config.get("tie_word_embeddings") else 2
    return config["num_hidden_layers"] * layer + embeddings * width * config["vocab_size"]
