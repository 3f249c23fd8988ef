"""A pass forward and backward through one frozen block of the language model, timed in three ways.

    python bench/blocks.py --preset gpu

`bench/results/parts.md` has the bytes that its element-wise part moves in each, computed from shapes. On a CPU nothing
is compiled.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

import torch
from measuring import Meter, preset_of, publish, table
from shapes import Preset
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

#: Positions of a sample: about the mean of the published batches, and a longer one.
LENGTHS = (284, 320)


def pass_through(block: Callable, inputs: Tensor, places: tuple[Tensor, Tensor], dtype: torch.dtype) -> None:
    with torch.autocast(inputs.device.type, dtype=dtype):
        output = block(inputs, position_embeddings=places)
    (output[0] if isinstance(output, tuple) else output).sum().backward()


def timed(preset: Preset) -> list[list[str]]:
    """Return the rows of the milliseconds, each the median of ``repeats`` passes at each length."""
    config = LlamaConfig(
        hidden_size=preset.width, intermediate_size=preset.ffn, num_attention_heads=preset.heads, num_hidden_layers=1
    )
    config._attn_implementation = "sdpa"
    meter, dtype, device = Meter(preset.device), getattr(torch, preset.dtype), preset.device
    block = LlamaDecoderLayer(config, 0).to(device, dtype).requires_grad_(False)
    rotary = LlamaRotaryEmbedding(config).to(device)
    ways: dict[str, tuple[Callable, torch.dtype]] = {
        "eager, float32 residual": (block, torch.float32),
        "eager, bfloat16 residual": (block, dtype),
    }
    if meter.on_gpu:
        ways["compiled block"] = (torch.compile(block), torch.float32)
    rows = []
    for way, (run, residual) in ways.items():
        medians = []
        for length in LENGTHS:
            inputs = torch.randn(preset.batch_size, length, preset.width, device=device, dtype=residual)
            places = rotary(inputs, torch.arange(length, device=device)[None])
            both = partial(pass_through, run, inputs.requires_grad_(), places, dtype)
            both()
            medians.append(statistics.median(meter.seconds(both) for _ in range(4 * preset.repeats)))
        rows.append([way, *(f"{1e3 * seconds:.2f}" for seconds in medians)])
    return rows


def main() -> None:
    preset, out = preset_of("train", Preset, __doc__)
    header = ["ms, forward and backward", *(f"{preset.batch_size} × {length}" for length in LENGTHS)]
    publish("A block", preset.device, table(header, timed(preset)), out)


if __name__ == "__main__":
    main()
