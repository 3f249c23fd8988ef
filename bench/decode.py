"""Our beam search beside transformers' `generate`: equal tokens, then records per second.

    python bench/decode.py [--preset cpu|gpu] [--out FILE]

Both sides get the same prefixes, random embeddings with the lengths of prompts, and must write the
same number of tokens. They take turns: a CPU is timed in CPU seconds of one thread, a GPU in wall
seconds. In half precision, tokens are compared on a smaller model in double precision: else the two
sides round differently and diverge when scores are nearly equal. On a GPU larger batches follow,
without `generate`.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from measuring import EOS, PARAMS, Meter, Preset, make_language, ratio, run, table
from torch import Tensor
from transformers import LlamaForCausalLM

from pacer.decoding.beam import BeamSearch
from pacer.decoding.search import Engine, Prefix
from tests.support.transformers_generate import Generate

#: Fewest and most positions of a prefix.
PREFIX = (170, 210)


def prefixes_of(preset: Preset, batch_size: int, dtype: torch.dtype) -> list[Tensor]:
    """Return random prefixes, the longest first."""
    draw = torch.Generator().manual_seed(1)
    lengths = torch.randint(PREFIX[0], PREFIX[1] + 1, (batch_size,), generator=draw)
    return [
        torch.randn(length, preset.width, generator=draw).to(preset.device, dtype)
        for length in sorted(lengths.tolist(), reverse=True)
    ]


def search(
    make_engine: Callable[..., Engine],
    model: LlamaForCausalLM,
    preset: Preset,
    batch_size: int,
    tokens: int,
) -> dict[int, list[list[int]]]:
    """Return exactly ``tokens`` tokens for each prefix, with the paper's other settings."""
    lengths = {"min_new_tokens": tokens, "max_new_tokens": tokens, "batch_size": batch_size}
    decode = PARAMS.decode.model_copy(update=lengths)
    prefixes = map(Prefix, prefixes_of(preset, batch_size, model.dtype))
    return dict(make_engine(model, decode, EOS)(enumerate(prefixes)))


def measure(preset: Preset) -> list[str]:
    """Compare and time both sides; return the results as Markdown. Raises an AssertionError if
    their tokens differ."""
    meter = Meter(preset.device, time.process_time)
    if not meter.on_gpu:
        torch.set_num_threads(1)  # CPU seconds of several threads would add up
    model, first = make_language(preset).eval().requires_grad_(False), preset.batch_sizes[0]
    small = model
    if preset.dtype != "float32":
        smaller = Preset(**vars(preset) | {"layers": 2, "dtype": "float64"})
        small = make_language(smaller).eval().requires_grad_(False)
    few = max(2, preset.tokens // 3)
    ours, theirs = (search(engine, small, preset, first, few) for engine in (BeamSearch, Generate))
    assert ours == theirs, "the two sides write different tokens"
    sides = [
        partial(search, engine, model, preset, first, preset.tokens)
        for engine in (BeamSearch, Generate)
    ]
    if meter.on_gpu:
        meter.in_turns(sides, 1)  # warm up
    times = meter.in_turns(sides, preset.repeats)
    rates = [f"{first / statistics.median(of_side):.3g}" for of_side in times]
    rows = [[str(first), *rates, ratio(times[1], times[0])]]
    for size in preset.batch_sizes[1:] if meter.on_gpu else ():
        larger = partial(search, BeamSearch, model, preset, size, preset.tokens)
        rows.append([str(size), f"{size / meter.seconds(larger):.3g}", "", ""])
    header = ["batch", "records/s", "records/s of `generate`", "ours over `generate`"]
    return [
        f"Random weights, {model.num_parameters() / 1e6:,.0f}M parameters ({preset.layers} layers "
        f"of width {preset.width}), {preset.dtype}; prefixes of {PREFIX[0]} to {PREFIX[1]} "
        f"positions, {PARAMS.decode.num_beams} beams, {preset.tokens} tokens a record. Medians, in "
        "brackets the range of the turns.",
        "",
        *table(header, rows),
    ]


if __name__ == "__main__":
    run("Decoding: our beam search beside `generate`", __doc__, measure)
