"""The element-wise part of a language model's block: bytes computed from shapes, and a pass timed on a GPU.

    python bench/blocks.py [--miniature]

The bytes are those of a forward pass in four ways (`bench/shapes.py`). Where there is a GPU, a pass forward and
backward through one frozen block is timed in the three ways that need no other library, at two lengths.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from measuring import Bench, device_of, table
from shapes import GPU, TRAFFIC, elementwise_bytes, miniature
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

#: Positions of a sample: about the mean of the published batches, and a longer one.
LENGTHS = (284, 320)


def computed(batch: int, d_model: int, d_ffn: int) -> list[list[str]]:
    """Return the rows of the bytes, and of the products' FLOPs beside which they stand."""
    positions = batch * LENGTHS[0]
    products = 2 * positions * (4 * d_model**2 + 3 * d_model * d_ffn)
    sizes = {way: elementwise_bytes(way, positions, d_model, d_ffn) for way in TRAFFIC}
    return [[way, f"{size / 1e9:.2f}", f"{products / size:,.0f}"] for way, size in sizes.items()]


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
    lines = [
        "# The element-wise part of a block",
        "",
        f"Forward pass of a layer at {preset.batch_size} × {LENGTHS[0]} positions, width {preset.d_model}, computed.",
        "",
        *table(
            ["way", "GB", "FLOPs of the products a byte"], computed(preset.batch_size, preset.d_model, preset.d_ffn)
        ),
    ]
    if torch.cuda.is_available():
        header = ["ms, forward and backward", *(f"{preset.batch_size} × {length}" for length in LENGTHS)]
        lines += ["", *table(header, timed(Bench(preset, device_of(preset))))]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
