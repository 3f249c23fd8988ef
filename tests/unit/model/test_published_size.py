"""The published model's trainable parameters, against the arithmetic of its layers."""

from itertools import product

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pacer.model.assemble import from_modules
from pacer.model.checkpoint import specification_of
from pacer.training.phases import phase_of
from tests.support.profiles import profile

#: Parts of the model, and the prefixes of their parameters' names.
PARTS = {
    "router": ("router.",),
    "interfaces": ("interface.queries", "interface.frontal.", "interface.lateral.", "interface.prior."),
    "fusion": ("interface.fusion", "interface.fusion_norm"),
    "LoRA": ("language.",),
    "calibrator": ("calibrator.",),
}
V, D, HIDDEN, QUERIES, RANK = 768, 4096, 2048, 128, 32


def linear(inside: int, outside: int) -> int:
    return inside * outside + outside


def test_trainable_parameters_are_those_of_the_published_layers() -> None:
    params = profile("mimic_rg4")
    with torch.device("meta"):
        language = LlamaForCausalLM(LlamaConfig(vocab_size=32_000))  # Vicuna-7B's shapes are its defaults
        model = from_modules(language, torch.nn.LayerNorm(V), V, specification_of("calibrate", params))
    counts = {phase: {} for phase in ("warmup", "parent", "calibrate")}
    for phase, (part, starts) in product(counts, PARTS.items()):
        trained = phase_of(phase, params).trainable
        counts[phase][part] = sum(p.numel() for n, p in model.named_parameters() if n.startswith(starts) and trained(n))

    router = 3 * (2 * V + linear(V, V)) + V + 3 + 2 * V + linear(V, V) + 1
    attention = 3 * linear(V, V) + 2 * V + linear(V, V)  # with the bias key and value
    branch = attention + 2 * V + linear(V, V) + 2 * V + linear(V, HIDDEN) + linear(HIDDEN, D) + 2 * D
    fusion = linear(3 * D, D) + 2 * D
    lora = 32 * 2 * RANK * (D + D)
    calibrator = 4 * D + linear(3 * D, D) + linear(D, 1) + 2 * D + 2 * 16 * D
    queries, nothing = QUERIES * V, dict.fromkeys(PARTS, 0)
    assert counts["warmup"] == nothing | {"router": router, "interfaces": queries + branch}
    parent = {"router": router, "interfaces": queries + 3 * branch, "fusion": fusion, "LoRA": lora}
    assert counts["parent"] == nothing | parent
    assert counts["calibrate"] == nothing | {"calibrator": calibrator}
    rounded = [round(count / 1e6, 2) for count in (*parent.values(), calibrator)]
    assert rounded == [2.37, 38.9, 50.34, 16.78, 50.5]
