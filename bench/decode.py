"""Our beam search against transformers' `generate`: a check of equal tokens, then records per
second, in turns.

    python bench/decode.py                                     CPU: SmolLM2's layers, 12 of 30;
    about 5 minutes python bench/decode.py --preset gpu                        GPU: 7B shapes in
    bfloat16, weights made on the device python bench/decode.py --out bench/results/decode.md
    also write the results

Both sides get the same prefixes: random embeddings with the lengths of prompts, sorted by length as
in `decode`. They must generate exactly `tokens` tokens per record, so both take the same number of
steps. In float32, timed pairs of the same batch are compared too. A CPU is timed in CPU seconds of
one thread, a GPU in wall seconds. In half precision, tokens are compared in double precision on a
model of fewer layers: else the two sides round differently and diverge when scores are nearly
equal.

On a GPU larger batches follow, without `generate`. For each batch one step of the language model is
also timed in the middle of the search: alone, as a CUDA graph, which takes no time of the host, and
as a part of the whole step.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from measuring import Meter, Preset, Unequal, in_turns, preset_of, publish, ratio, table
from shapes import EOS, PARAMS, make_language
from torch import Tensor
from transformers import LlamaForCausalLM

from pacer.config import Decode
from pacer.decoding import beam
from pacer.decoding.beam import BeamSearch, Generate

#: The paper's settings, from which penalties and number of beams are used.
PAPER = PARAMS.decode
#: Least and most positions of a prefix; layers of the model whose tokens are compared in double
#: precision.
PREFIX, COMPARED_LAYERS = (170, 210), 2


def settings(preset: Preset, tokens: int, batch_size: int) -> Decode:
    lengths = {"min_new_tokens": tokens, "max_new_tokens": tokens}
    return PAPER.model_copy(update=lengths | {"batch_size": batch_size})


def same(what: str, ours: dict[int, list[int]], theirs: dict[int, list[int]]) -> None:
    """Raise Unequal if tokens differ."""
    unlike = sorted(number for number in theirs if ours.get(number) != theirs[number])
    if unlike or len(ours) != len(theirs):
        raise Unequal(
            f"{what}: tokens of {len(unlike)} of {len(theirs)} records differ, the first is "
            f"{unlike[:1]}"
        )


def compare(preset: Preset, model: LlamaForCausalLM, prefixes: Sequence[Tensor]) -> None:
    """Compare the tokens of both sides, on the timed model or, for half precision, on a smaller
    one.

    Raises:
        Unequal: they differ.
    """
    if preset.dtype != "float32":
        model = frozen_language(
            Preset(**vars(preset) | {"layers": COMPARED_LAYERS, "dtype": "float64"})
        )
    cast = [prefix.to(model.dtype) for prefix in prefixes]
    decode = settings(preset, max(2, preset.tokens // 3), len(prefixes))
    same(
        "before timing",
        *(dict(engine(model, decode, EOS)(cast)) for engine in (BeamSearch, Generate)),
    )


def frozen_language(preset: Preset) -> LlamaForCausalLM:
    return make_language(preset).eval().requires_grad_(False)


def prefixes_of(preset: Preset, batch_size: int, dtype: torch.dtype) -> list[Tensor]:
    """Return random prefixes, the longest first."""
    draw = torch.Generator().manual_seed(1)
    lengths = torch.randint(PREFIX[0], PREFIX[1] + 1, (batch_size,), generator=draw).tolist()
    return [
        torch.randn(length, preset.width, generator=draw).to(preset.device, dtype)
        for length in sorted(lengths, reverse=True)
    ]


def step_times(meter: Meter, search: Callable[[], Any], at: int) -> tuple[float, float]:
    """Return the seconds of the language model in step ``at`` of a search, as it is called and as a
    CUDA graph."""
    forward, calls, times = beam._Search._forward, [], []

    def noted(self: Any, *given: Any) -> Tensor:
        calls.append(given)
        if len(calls) != at:
            return forward(self, *given)

        def call() -> (
            None
        ):  # the new tokens' slots are written once more each time, with the same values
            self.language.lm_head(forward(self, *given))

        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.stream(stream):  # libraries allocate what they need on it
            call()
        meter.wait()
        with torch.cuda.graph(graph, stream=stream):
            call()
        times.extend(
            statistics.median(meter.seconds(one) for _ in range(9)) for one in (call, graph.replay)
        )
        return forward(self, *given)

    with patch.object(beam._Search, "_forward", noted):
        search()
    return times[0], times[1]


def measure(preset: Preset) -> list[str]:
    """Compare and time both sides; return the results as Markdown."""
    meter = Meter(preset.device, time.process_time)
    if not meter.on_gpu:
        torch.set_num_threads(1)  # CPU seconds of several threads would add up
    model, first = frozen_language(preset), preset.batch_sizes[0]
    tokens: dict[Any, dict] = {}

    def side(engine: Any, batch_size: int) -> Callable[[Any], float]:
        given, decode = (
            prefixes_of(preset, batch_size, model.dtype),
            settings(preset, preset.tokens, batch_size),
        )

        def search() -> None:
            tokens[engine] = dict(engine(model, decode, EOS)(given))

        return lambda _: meter.seconds(search)

    meter.say("comparing tokens")
    compare(preset, model, prefixes_of(preset, first, model.dtype))
    sides = [side(BeamSearch, first), side(Generate, first)]
    if meter.on_gpu:
        in_turns(sides, [(None, None)], 1)  # warm up
    meter.say(f"batch {first} on both sides")
    ours, theirs = in_turns(sides, [(None, None)], preset.repeats)
    if preset.dtype == "float32":
        same("while timing", tokens[BeamSearch], tokens[Generate])
    rate = f"{first / statistics.median(theirs):.3g}"
    rows = [[str(first), f"{first / statistics.median(ours):.3g}", rate, ratio(theirs, ours)]]
    for batch_size in preset.batch_sizes if meter.on_gpu else ():
        meter.say(f"batch {batch_size}")
        search = side(BeamSearch, batch_size)
        if batch_size != first:
            rows.append([str(batch_size), f"{batch_size / search(None):.3g}", "", ""])
            ours = [batch_size / float(rows[-1][1])]
        eager, graph = step_times(meter, partial(search, None), preset.tokens // 2)
        peak = meter.peak(partial(search, None))
        whole = statistics.median(ours) / preset.tokens
        rows[-1] += [f"{1e3 * seconds:.1f}" for seconds in (whole, eager, graph)] + [
            f"{peak / 1e3:.1f}"
        ]
    header = ["batch", "records/s", "records/s of `generate`", "ours over `generate`"]
    header += (
        ["a step, ms", "its language model", "that as a graph", "peak, GB"] if meter.on_gpu else []
    )
    return [
        f"Random weights, {model.num_parameters() / 1e6:,.0f}M parameters ({preset.layers} layers, "
        f"width {preset.width}, {preset.heads} heads over {preset.groups}, vocabulary "
        f"{preset.vocabulary:,}), {preset.dtype}; prefixes of {PREFIX[0]} to {PREFIX[1]} "
        f"positions, {PAPER.num_beams} beams, exactly {preset.tokens} tokens a record, repetition "
        f"penalty {PAPER.repetition_penalty:g}, length penalty {PAPER.length_penalty:g}. Tokens of "
        "both sides compared first, and equal. Sides in turns; medians, in brackets the range of "
        f"the turns{'' if meter.on_gpu else '; CPU seconds of one thread'}.",
        "",
        *table(header, rows),
    ]


def main() -> None:
    preset, out = preset_of("decode", __doc__)
    publish("Decoding: our beam search beside `generate`", preset.device, measure(preset), out)


if __name__ == "__main__":
    main()
