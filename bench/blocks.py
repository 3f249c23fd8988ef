"""A pass forward and backward through one frozen block of the language model, timed on a GPU in three ways.

    python bench/blocks.py [--miniature]

`bench/results/parts.md` has the bytes that its element-wise part moves in each, computed from shapes.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from measuring import Bench, device_of, table
from shapes import GPU, miniature
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

#: Positions of a sample: about the mean of the published batches, and a longer one.
LENGTHS = (284, 320)


def timed(bench: Bench) -> list[list[str]]:
    """Return the rows of the milliseconds, each the median of ``repeats`` passes at each length."""
    preset = bench.preset
    config = LlamaConfig(
        hidden_size=preset.d_model,
        intermediate_size=preset.d_ffn,
        num_attention_heads=preset.heads,
        num_hidden_layers=1,
    )
    config._attn_implementation = "sdpa"
    block = LlamaDecoderLayer(config, 0).to(bench.device, preset.dtype).requires_grad_(False)
    rotary = LlamaRotaryEmbedding(config).to(bench.device)
    ways: dict[str, tuple[Callable, torch.dtype]] = {
        "eager, float32 residual": (block, torch.float32),
        "compiled block": (torch.compile(block), torch.float32),
        "eager, bfloat16 residual": (block, preset.dtype),
    }
    rows = []
    for way, (run, dtype) in ways.items():
        medians = []
        for length in LENGTHS:
            size = preset.batch_size, length, preset.d_model
            inputs = torch.randn(size, device=bench.device, dtype=dtype).requires_grad_()
            places = rotary(inputs, torch.arange(length, device=bench.device)[None])

            def both(run: Callable = run, inputs: torch.Tensor = inputs, places: tuple = places) -> None:
                with torch.autocast(bench.device.type, dtype=preset.dtype):
                    output = run(inputs, position_embeddings=places)
                (output[0] if isinstance(output, tuple) else output).sum().backward()

            both()
            medians.append(statistics.median(bench.seconds(both) for _ in range(4 * preset.repeats)))
        rows.append([way, *(f"{1e3 * seconds:.2f}" for seconds in medians)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--miniature", action="store_true", help="tiny shapes on the CPU: does it run?")
    preset = miniature(GPU) if parser.parse_args().miniature else GPU
    if torch.cuda.is_available():
        header = ["ms, forward and backward", *(f"{preset.batch_size} × {length}" for length in LENGTHS)]
        print("\n".join(["# A block", "", *table(header, timed(Bench(preset, device_of(preset))))]))


if __name__ == "__main__":
    main()
