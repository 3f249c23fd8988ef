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

import statistics

import torch
from measuring import Bench, device_of, given, in_turns, megabytes, milliseconds, publish, ratio, table, within
from shapes import FLOAT32, PACERS, PRESETS, WINDOW, make_records, miniature
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


def compared_steps(bench: Bench, phase: Phase) -> list[str]:
    """Return the table's row for a phase's step of both sides."""
    name, model = NAMES[phase.name], model_of(bench, phase)
    sides = sides_of(bench, phase, model)
    optimizer = optimizer_of(sides[0])
    steps = [timed_step(bench, side, optimizer) for side in sides]
    bench.say(f"{name} step")
    batches = our_batches(bench, make_records(PACERS, bench.preset), phase)
    pairs = beside_theirs(bench, batches)
    assert_same_step(bench, phase, model, pairs[-1])
    warm = pairs if bench.on_gpu else pairs[-1:]
    for batch, _ in warm:  # the optimizer allocates its memory
        steps[0](batch)
    peaks = [most_memory(bench, own, [pair[place] for pair in warm]) for place, own in enumerate(steps)]
    ours, theirs = in_turns(steps, pairs, bench.preset.repeats)
    faster, shown = ratio(theirs, ours)
    less = peaks[0] / peaks[1]
    bench.judge(f"{name}: times faster", faster)
    bench.judge(f"{name}: share of the peak", less)
    padded = sum(own.mask.numel() for _, own in pairs) / sum(batch.ids.numel() for batch in batches)
    tokens = sum(int(batch.length.sum()) for batch in batches)
    return [
        name,
        milliseconds(ours, len(pairs)),
        milliseconds(theirs, len(pairs)),
        shown,
        f"{padded:.2f}",
        f"{tokens / statistics.median(ours):,.0f}",
        megabytes(peaks[0]),
        f"{megabytes(peaks[1])} ({less:.2f})",
    ]


def measure_steps(bench: Bench) -> list[str]:
    """Measure whole steps of both sides; return the results as Markdown."""
    preset = bench.preset
    agreed = within(preset.tolerances)
    if preset.dtype != torch.float32:
        assert_same_in_float32(bench)
        agreed += f" (two layers in float32: {within(FLOAT32)})"
    rows = [compared_steps(bench, phase) for phase in (COMMIT, CALIBRATE)]
    lines = [
        f"{preset.layers} layers of width {preset.d_model}, batches of {preset.batch_size}, {preset.queries} "
        f"visual tokens, {preset.patches} patches; mean of {preset.batches} micro-batches that stand for an epoch "
        f"in windows of {WINDOW}. Peak memory {'with' if bench.on_gpu else 'beyond'} weights and optimizer. Before the "
        f"timing both sides agreed: {agreed}, relatively. Ratios are of medians, in brackets the range of the turns.",
        "",
    ]
    header = [
        "step",
        "ms",
        "upstream-style, ms",
        "times faster",
        "its positions over ours",
        "real tokens/s",
        "peak, MB",
        "upstream-style, MB (ratio)",
    ]
    lines += table(header, rows)
    return lines + (["## Bars", "", *table(["bar", "asked", "measured", ""], bench.bars)] if bench.bars else [])


def main() -> None:
    preset, out = given(__doc__, PRESETS, miniature)
    bench = Bench(preset, device_of(preset))
    publish("Training beside an upstream-style step", bench.device, measure_steps(bench), out)


if __name__ == "__main__":
    main()
