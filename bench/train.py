"""Training steps, compared with a straightforward implementation after LLM-RG4.

    python bench/train.py                                     # CPU shapes, under five minutes on two cores
    python bench/train.py --preset gpu --out bench/results/train.md   # the published model's shapes, on a GPU

All weights, texts and image states are random; only the shapes and the distribution of lengths matter. Both sides of a
comparison have the same weights and records. First, their losses and gradients are checked to agree, without dropout.
Then they are timed in turns, with dropout as in training; results are medians, and the range of the turns' ratios. A
step moves the batch to the device and does forward, loss, backward and AdamW; it reads no records or features. Memory
is the peak that tensors hold at a time. Nothing else should run meanwhile. Results are printed as Markdown, which marks
missed bars.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch
from measuring import Bench, device_of, hardware, in_turns, megabytes, milliseconds, ratio, table, within
from shapes import FLOAT32, PRESETS, WINDOW, Texts, make_records, miniature
from steps import (
    CALIBRATE,
    COMMIT,
    NAMES,
    assert_same_in_float32,
    assert_same_step,
    beside_theirs,
    model_of,
    most_memory,
    optimizer_of,
    our_batches,
    sides_of,
    timed_step,
)

from pacer.training.phases import Phase


def compared_steps(bench: Bench, phase: Phase, kinds: Sequence[Texts]) -> list[list[str]]:
    """Return the table's rows for a phase's step of both sides, one for each kind of texts."""
    name, model = NAMES[phase.name], model_of(bench, phase)
    sides = sides_of(bench, phase, model)
    optimizer = optimizer_of(sides[0])
    steps = [timed_step(bench, side, optimizer) for side in sides]
    rows = []
    for texts in kinds:
        bench.say(f"{name} step, {texts.name} texts")
        batches = our_batches(bench, make_records(texts, bench.preset), phase)
        pairs = beside_theirs(bench, batches, texts)
        assert_same_step(bench, phase, model, texts, pairs[-1])
        warm = pairs if bench.on_gpu else pairs[-1:]
        for batch, _ in warm:  # the optimizer allocates its memory
            steps[0](batch)
        peaks = [most_memory(bench, own, [pair[place] for pair in warm]) for place, own in enumerate(steps)]
        ours, theirs = in_turns(steps, pairs, bench.preset.repeats)
        faster, shown = ratio(theirs, ours)
        seconds, less = statistics.median(ours), peaks[0] / peaks[1]
        bench.judge(f"{name}, {texts.name} texts: times faster", faster)
        bench.judge(f"{name}, {texts.name} texts: share of the peak", less)
        padded = sum(own.mask.numel() for _, own in pairs) / sum(batch.ids.numel() for batch in batches)
        tokens = sum(int(batch.length.sum()) for batch in batches)
        rows.append(
            [
                f"{name}, {texts.name}",
                milliseconds(ours, len(pairs)),
                milliseconds(theirs, len(pairs)),
                shown,
                f"{padded:.2f}",
                f"{tokens / seconds:,.0f}",
                megabytes(peaks[0]),
                f"{megabytes(peaks[1])} ({less:.2f})",
            ]
        )
    return rows


def measure_steps(bench: Bench) -> list[str]:
    """Measure whole steps of both sides; return the results as Markdown."""
    preset = bench.preset
    agreed = within(preset.tolerances)
    if preset.dtype != torch.float32:
        assert_same_in_float32(bench)
        agreed += f" (two layers in float32: {within(FLOAT32)})"
    rows = compared_steps(bench, COMMIT, preset.texts) + compared_steps(bench, CALIBRATE, preset.calibrate_texts)
    lines = [
        f"{preset.layers} layers of width {preset.d_model}, batches of {preset.batch_size}, {preset.queries} "
        f"visual tokens, {preset.patches} patches; mean of {preset.batches} micro-batches that stand for an epoch "
        f"in windows of {WINDOW}. Peak memory {'with' if bench.on_gpu else 'beyond'} weights and optimizer. Before the "
        f"timing both sides agreed: {agreed}, relatively.",
        "",
    ]
    header = [
        "step, texts",
        "ms",
        "upstream-style, ms",
        "times faster",
        "its positions over ours",
        "real tokens/s",
        "peak, MB",
        "upstream-style, MB (ratio)",
    ]
    return lines + table(header, rows)


def report(bench: Bench, command: str, load: float) -> str:
    """Measure, and return the results as Markdown."""
    preset, measured = bench.preset, measure_steps(bench)
    versions = ", ".join(
        [
            f"Python {platform.python_version()}",
            *(f"{name} {version(name)}" for name in ("torch", "transformers", "peft")),
        ]
    )
    lines = [
        "# Training beside an upstream-style step",
        "",
        f"`{command}`, {time.strftime('%Y-%m-%d')}. {hardware(device_of(preset))}; load average {load:.2f} at "
        f"the start. {versions}. Frozen weights {str(preset.dtype).removeprefix('torch.')}. Ratios are of "
        "medians, in brackets the range of the turns.",
        "",
    ]
    lines += measured
    if bench.bars:
        lines += ["## Bars", "", *table(["bar", "asked", "measured", ""], bench.bars)]
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=PRESETS, default="cpu")
    parser.add_argument("--miniature", action="store_true", help="tiny shapes on the CPU: does it run?")
    parser.add_argument("--out", type=Path, help="also write the results here")
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(given)
    preset = PRESETS[options.preset]
    preset = miniature(preset) if options.miniature else preset
    load = os.getloadavg()[0]
    text = report(Bench(preset, device_of(preset)), " ".join(["python bench/train.py", *given]), load)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)


if __name__ == "__main__":
    main()
