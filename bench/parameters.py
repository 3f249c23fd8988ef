"""Trainable parameters of the published model, part by part, from its shapes on the meta device, without weights.

python bench/parameters.py [configs/mimic_rg4.yaml]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from pacer.config import Params
from pacer.config.profiles import load_profile
from pacer.model.assemble import from_modules
from pacer.model.checkpoint import specification_of
from pacer.model.pacer import Pacer
from pacer.training.phases import phase_of

ROOT = Path(__file__).resolve().parents[1]

#: Shapes in config.json of lmsys/vicuna-7b-v1.5; width of RAD-DINO and of CXR-BERT.
VICUNA = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}
WIDTH = 768

#: Parts of the model, and the prefixes of their parameters' names.
PARTS = {
    "router": ("router.",),
    "interfaces": ("interface.queries", "interface.frontal.", "interface.lateral.", "interface.prior."),
    "fusion": ("interface.fusion", "interface.fusion_norm"),
    "LoRA": ("language.",),
    "calibrator": ("calibrator.",),
}


def published_model(params: Params) -> Pacer:
    """Return the model of ``params`` with the shapes of the published frozen models, on the meta device."""
    with torch.device("meta"):
        language = LlamaForCausalLM(LlamaConfig(**VICUNA))
        return from_modules(language, nn.LayerNorm(WIDTH), WIDTH, specification_of("calibrate", params))


def trainable_counts(model: Pacer, params: Params) -> dict[str, dict[str, int]]:
    """Return ``{phase: {part: number of parameters that the phase trains}}``."""
    counts: dict[str, dict[str, int]] = {}
    for name in ("warmup", "parent", "calibrate"):
        phase = phase_of(name, params)
        counts[name] = {
            part: sum(p.numel() for n, p in model.named_parameters() if n.startswith(starts) and phase.trainable(n))
            for part, starts in PARTS.items()
        }
    return counts


def main() -> None:
    params = load_profile(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "configs" / "mimic_rg4.yaml")
    model = published_model(params)
    counts = trainable_counts(model, params)
    print(f"{'':12}" + "".join(f"{part:>14}" for part in PARTS) + f"{'all':>14}")
    for phase, parts in counts.items():
        print(f"{phase:12}" + "".join(f"{parts[part]:>14,}" for part in PARTS) + f"{sum(parts.values()):>14,}")
    frozen = sum(p.numel() for n, p in model.language.named_parameters() if "lora_" not in n)
    print(f"frozen language model: {frozen:,}")


if __name__ == "__main__":
    main()
