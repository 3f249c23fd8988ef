"""Our beam search against transformers' `generate`: a check of equal tokens, then records per second, in turns.

    python bench/decode.py                                     CPU: SmolLM2's layers, 12 of 30; about 5 minutes
    python bench/decode.py --preset gpu                        GPU: 7B shapes in bfloat16, weights made on the device
    python bench/decode.py --out bench/results/decode.md       also write the results

Both sides get the same prefixes: random embeddings with the lengths of prompts, sorted by length as in `decode`. They
must generate exactly `tokens` tokens per record, so both take the same number of steps. In float32, timed pairs of the
same batch are compared too. A CPU is timed in CPU seconds of one thread, a GPU in wall seconds. The exit code is 1 if a
bar is missed, and 2 if tokens differ. On a GPU, tokens are compared in double precision, on a model of fewer layers:
else the two sides round differently and diverge when scores are nearly equal.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from measuring import Unequal, device_of, given, in_turns, publish, ratio, table
from shapes import PARAMS
from transformers import LlamaConfig, LlamaForCausalLM

from pacer.config import Decode
from pacer.decoding.beam import BeamSearch
from pacer.decoding.transformers_generate import Generate

EOS = 2
#: The paper's settings, from which penalties and number of beams are used.
PAPER = PARAMS.decode


@dataclass(frozen=True)
class Preset:
    """One set of shapes and repetitions.

    Attributes:
        device: None: a GPU if there is one. vocabulary, width, ffn, layers, heads, groups: of the language model
            (groups: key-value heads). spread: standard deviation of its weights.
        prefix: least and most positions of a prefix. tokens: generated for each record. beams: of a search.
        batch: size that both sides use. repeats: of the comparison, in turns.
        limit: least ratio of the speeds.
        compare_layers: of the model whose tokens are compared in double precision before half precision is timed.
    """

    device: str | None
    dtype: torch.dtype
    vocabulary: int
    width: int
    ffn: int
    layers: int
    heads: int
    groups: int
    prefix: tuple[int, int]
    tokens: int
    batch: int
    repeats: int
    limit: float
    spread: float = 0.04
    beams: int = PAPER.num_beams
    compare_layers: int = 2


PRESETS = {
    "cpu": Preset(
        device="cpu",
        dtype=torch.float32,
        vocabulary=16384,
        width=576,
        ffn=1536,
        layers=12,
        heads=9,
        groups=3,
        prefix=(170, 210),
        tokens=60,
        batch=8,
        repeats=2,
        limit=1.5,
    ),
    "gpu": Preset(
        device=None,
        dtype=torch.bfloat16,
        vocabulary=32000,
        width=4096,
        ffn=11008,
        layers=32,
        heads=32,
        groups=32,
        prefix=(170, 210),
        tokens=130,
        batch=64,
        repeats=3,
        limit=4.0,
        spread=0.02,
    ),
}


def miniature(preset: Preset) -> Preset:
    """Return a tiny version of a preset, which takes seconds on a CPU; its figures mean nothing."""
    return replace(
        preset,
        device="cpu",
        vocabulary=61,
        width=16,
        ffn=24,
        layers=3,
        heads=4,
        groups=min(preset.groups, 2),
        prefix=(3, 6),
        tokens=7,
        batch=2,
        repeats=1,
        spread=0.3,
    )


class Bench:
    """A preset on its device, with the model and the prefixes."""

    def __init__(self, preset: Preset):
        self.preset = preset
        self.device = device_of(preset)
        self.started = time.perf_counter()
        if self.device.type == "cpu":
            torch.set_num_threads(1)  # CPU seconds of several threads would add up
        self.model = self.make_model(preset.layers, preset.dtype)
        draw = torch.Generator().manual_seed(1)
        least, most = preset.prefix
        lengths = torch.randint(least, most + 1, (preset.batch,), generator=draw)
        self.prefixes = [
            torch.randn(n, preset.width, generator=draw).to(self.device, preset.dtype)
            for n in sorted(lengths.tolist(), reverse=True)
        ]

    def make_model(self, layers: int, dtype: torch.dtype) -> Any:
        """Return a model with random weights, made on the device."""
        preset = self.preset
        config = LlamaConfig(
            vocab_size=preset.vocabulary,
            hidden_size=preset.width,
            intermediate_size=preset.ffn,
            bos_token_id=1,
            num_hidden_layers=layers,
            num_attention_heads=preset.heads,
            num_key_value_heads=preset.groups,
            initializer_range=preset.spread,
            eos_token_id=EOS,
            max_position_embeddings=2048,
        )
        torch.manual_seed(0)
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)  # made in float32 first, the largest model would need twice the memory
        try:
            with torch.device(self.device):
                return LlamaForCausalLM(config).eval().requires_grad_(False)
        finally:
            torch.set_default_dtype(before)

    def say(self, text: str) -> None:
        print(f"[{time.perf_counter() - self.started:6.1f} s] {text}", file=sys.stderr, flush=True)

    def settings(self, tokens: int) -> Decode:
        preset = self.preset
        lengths = {"min_new_tokens": tokens, "max_new_tokens": tokens}
        return PAPER.model_copy(update=lengths | {"batch_size": preset.batch, "num_beams": preset.beams})

    def compare(self) -> None:
        """Compare the tokens of both sides, on the timed model or, for half precision, on a smaller one.

        Raises:
            Unequal: they differ.
        """
        whole = self.preset.dtype == torch.float32
        model = self.model if whole else self.make_model(self.preset.compare_layers, torch.float64)
        prefixes = [prefix.to(model.dtype) for prefix in self.prefixes]
        decode = self.settings(max(2, self.preset.tokens // 3))
        same("before timing", *(dict(side(model, decode, EOS)(prefixes)) for side in (BeamSearch, Generate)))

    def in_turns(self, repeats: int) -> list[list[float]]:
        """Return the seconds of our side and of `generate`, in turns."""
        tokens: dict[Any, dict] = {}

        def side(engine: Any) -> Callable[[None], float]:
            def search() -> None:
                tokens[engine] = dict(engine(self.model, self.settings(self.preset.tokens), EOS)(self.prefixes))

            return lambda _: self.timed(search)

        seconds = in_turns([side(BeamSearch), side(Generate)], [(None, None)], repeats)
        if self.preset.dtype == torch.float32:
            same("while timing", tokens[BeamSearch], tokens[Generate])
        return seconds

    def timed(self, work: Callable[[], object]) -> float:
        """Return the seconds until the device is done; on a CPU, the CPU seconds of this process."""
        clock = time.perf_counter if self.device.type == "cuda" else time.process_time
        self.wait()
        started = clock()
        work()
        self.wait()
        return clock() - started

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def same(what: str, ours: dict[int, list[int]], theirs: dict[int, list[int]]) -> None:
    """Raise Unequal if tokens differ."""
    unlike = sorted(number for number in theirs if ours.get(number) != theirs[number])
    if unlike or len(ours) != len(theirs):
        raise Unequal(f"{what}: tokens of {len(unlike)} of {len(theirs)} records differ, the first is {unlike[:1]}")


def measure(bench: Bench) -> tuple[list[str], float]:
    """Return the table, and the ratio of the speeds."""
    preset = bench.preset
    bench.say("comparing tokens")
    bench.compare()

    if bench.device.type == "cuda":
        bench.in_turns(1)  # warm up
    bench.say(f"batch {preset.batch} on both sides")
    ours, theirs = bench.in_turns(preset.repeats)
    value, shown = ratio(theirs, ours)
    rates = [f"{preset.batch / statistics.median(seconds):.3g}" for seconds in (ours, theirs)]
    header = ["batch", "records/s", "records/s of `generate`", "ours over `generate`"]
    return table(header, [[str(preset.batch), *rates, shown]]), value


def report(bench: Bench, lines: Sequence[str], value: float) -> list[str]:
    """Return the results as Markdown."""
    preset, config = bench.preset, bench.model.config
    parameters = sum(p.numel() for p in bench.model.parameters())
    return [
        f"Random weights, {parameters / 1e6:,.0f}M parameters ({config.num_hidden_layers} layers, width "
        f"{config.hidden_size}, {config.num_attention_heads} heads over {config.num_key_value_heads}, vocabulary "
        f"{config.vocab_size:,}), {str(preset.dtype).removeprefix('torch.')}; prefixes of {preset.prefix[0]} to "
        f"{preset.prefix[1]} positions, {preset.beams} beams, exactly {preset.tokens} tokens a record, repetition "
        f"penalty {PAPER.repetition_penalty:g}, length penalty {PAPER.length_penalty:g}. Tokens of both sides compared "
        "first, and equal.",
        "",
        "Sides in turns; medians, in brackets the range of the turns"
        f"{'' if bench.device.type == 'cuda' else '; CPU seconds of one thread'}.",
        "",
        *lines,
        f"Asked: at least {preset.limit:.3g}; {'met' if value >= preset.limit else '**missed**'}.",
    ]


def main() -> None:
    preset, out = given(__doc__, PRESETS, miniature)
    bench = Bench(preset)
    try:
        lines, value = measure(bench)
    except Unequal as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    publish("Decoding: our beam search beside `generate`", bench.device, report(bench, lines, value), out)
    bench.say("done")
    raise SystemExit(value < preset.limit)


if __name__ == "__main__":
    main()
