"""Our beam search against transformers' `generate`: a check of equal tokens, then records per second, in turns.

    python bench/decode.py                                     CPU: SmolLM2's layers, 12 of 30; about 5 minutes
    python bench/decode.py --preset gpu                        GPU: 7B shapes in bfloat16, weights made on the device
    python bench/decode.py --out bench/results/decode.md       also write the results

Both sides get the same prefixes: random embeddings with the lengths of prompts, sorted by length as in `decode`. They
must generate exactly `tokens` tokens per record, so both take the same number of steps. In float32, timed pairs of the
same batch are compared too. A CPU is timed in CPU seconds of one thread, a GPU in wall seconds. In half precision,
tokens are compared in double precision on a model of fewer layers: else the two sides round differently and diverge
when scores are nearly equal.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from measuring import Meter, Preset, Unequal, in_turns, preset_of, publish, ratio, table
from shapes import EOS, PARAMS, make_language
from torch import Tensor
from transformers import LlamaForCausalLM

from pacer.config import Decode
from pacer.decoding.beam import BeamSearch, Generate

#: The paper's settings, from which penalties and number of beams are used.
PAPER = PARAMS.decode
#: Least and most positions of a prefix; layers of the model whose tokens are compared in double precision.
PREFIX, COMPARED_LAYERS = (170, 210), 2


def settings(preset: Preset, tokens: int) -> Decode:
    lengths = {"min_new_tokens": tokens, "max_new_tokens": tokens}
    return PAPER.model_copy(update=lengths | {"batch_size": preset.batch_size})


def same(what: str, ours: dict[int, list[int]], theirs: dict[int, list[int]]) -> None:
    """Raise Unequal if tokens differ."""
    unlike = sorted(number for number in theirs if ours.get(number) != theirs[number])
    if unlike or len(ours) != len(theirs):
        raise Unequal(f"{what}: tokens of {len(unlike)} of {len(theirs)} records differ, the first is {unlike[:1]}")


def compare(preset: Preset, model: LlamaForCausalLM, prefixes: Sequence[Tensor]) -> None:
    """Compare the tokens of both sides, on the timed model or, for half precision, on a smaller one.

    Raises:
        Unequal: they differ.
    """
    if preset.dtype != "float32":
        model = frozen_language(Preset(**vars(preset) | {"layers": COMPARED_LAYERS, "dtype": "float64"}))
    cast, decode = [prefix.to(model.dtype) for prefix in prefixes], settings(preset, max(2, preset.tokens // 3))
    same("before timing", *(dict(engine(model, decode, EOS)(cast)) for engine in (BeamSearch, Generate)))


def frozen_language(preset: Preset) -> LlamaForCausalLM:
    return make_language(preset).eval().requires_grad_(False)


def measure(preset: Preset) -> list[str]:
    """Compare and time both sides; return the results as Markdown."""
    meter = Meter(preset.device, time.process_time)
    if not meter.on_gpu:
        torch.set_num_threads(1)  # CPU seconds of several threads would add up
    model, draw = frozen_language(preset), torch.Generator().manual_seed(1)
    lengths = torch.randint(PREFIX[0], PREFIX[1] + 1, (preset.batch_size,), generator=draw).tolist()
    prefixes = [
        torch.randn(length, preset.width, generator=draw).to(preset.device, model.dtype)
        for length in sorted(lengths, reverse=True)
    ]
    meter.say("comparing tokens")
    compare(preset, model, prefixes)
    tokens: dict[Any, dict] = {}

    def side(engine: Any) -> Callable[[None], float]:
        def search() -> None:
            tokens[engine] = dict(engine(model, settings(preset, preset.tokens), EOS)(prefixes))

        return lambda _: meter.seconds(search)

    sides = [side(BeamSearch), side(Generate)]
    if meter.on_gpu:
        in_turns(sides, [(None, None)], 1)  # warm up
    meter.say(f"batch {preset.batch_size} on both sides")
    ours, theirs = in_turns(sides, [(None, None)], preset.repeats)
    if preset.dtype == "float32":
        same("while timing", tokens[BeamSearch], tokens[Generate])
    rates = [f"{preset.batch_size / statistics.median(seconds):.3g}" for seconds in (ours, theirs)]
    header = ["batch", "records/s", "records/s of `generate`", "ours over `generate`"]
    return [
        f"Random weights, {model.num_parameters() / 1e6:,.0f}M parameters ({preset.layers} layers, width "
        f"{preset.width}, {preset.heads} heads over {preset.groups}, vocabulary {preset.vocabulary:,}), "
        f"{preset.dtype}; prefixes of {PREFIX[0]} to {PREFIX[1]} positions, {PAPER.num_beams} beams, exactly "
        f"{preset.tokens} tokens a record, repetition penalty {PAPER.repetition_penalty:g}, length penalty "
        f"{PAPER.length_penalty:g}. Tokens of both sides compared first, and equal. Sides in turns; medians, in "
        f"brackets the range of the turns{'' if meter.on_gpu else '; CPU seconds of one thread'}.",
        "",
        *table(header, [[str(preset.batch_size), *rates, ratio(theirs, ours)]]),
    ]


def main() -> None:
    preset, out = preset_of("decode", __doc__)
    publish("Decoding: our beam search beside `generate`", preset.device, measure(preset), out)


if __name__ == "__main__":
    main()
