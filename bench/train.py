"""Training steps and loss heads, each compared with a straightforward implementation after LLM-RG4.

    python bench/train.py                                     # CPU shapes, under five minutes on two cores
    python bench/train.py --preset gpu --out bench/results/train.md   # the published model's shapes, on a GPU
    python bench/train.py --only head,steps                   # some parts: head, steps, calibrate

All weights, texts and image states are random; only the shapes and the distribution of lengths matter. Both sides of a
comparison have the same weights and records. First, their losses and gradients are checked to agree, without dropout.
Then they are timed in turns, with dropout as in training; results are medians, and the range of the turns' ratios. A
step moves the batch to the device and does forward, loss, backward and AdamW; it reads no records or features. Memory
is the peak that tensors hold at a time. Nothing else should run meanwhile. Results are printed as Markdown, which marks
missed bars.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from heads import HEADS, head_case, head_step
from measuring import Bench, assert_agree, device_of, hardware, in_turns, megabytes, milliseconds, ratio, table, within
from shapes import FLOAT32, PRESETS, WINDOW, Preset, Texts, make_records, miniature
from steps import (
    CALIBRATE,
    COMMIT,
    NAMES,
    assert_same_in_float32,
    assert_same_step,
    bare_passes,
    beside_theirs,
    model_of,
    most_memory,
    optimizer_of,
    our_batches,
    our_side,
    sides_of,
    step_flops,
    timed_step,
    with_merged_lora,
    without_calibrator,
)

from pacer.training.phases import Phase


class Section(NamedTuple):
    """One part's results: title, Markdown lines, and the rows of the bars that it was held to."""

    title: str
    lines: list[str]
    bars: Sequence[list[str]] = ()


def measure_head(bench: Bench) -> Section:
    """Measure time and peak memory of the loss head, with and without the divergence."""
    preset, shape, rows = bench.preset, bench.preset.head, []
    for name, divergence in (("Cross-entropy", False), ("Cross-entropy and KL", True)):
        bench.say(f"loss head: {name}")
        case = head_case(preset, bench.device, divergence)
        calls = [partial(head_step, case, side) for side in HEADS]
        found, peaks = [], []
        for call in calls:
            loss = call()
            assert case.hidden.grad is not None
            found.append(({"loss": loss}, {"hidden": case.hidden.grad.clone()}))
        assert_agree(name, *found, preset.tolerances)
        for call in calls:
            case.hidden.grad = None  # the gradient counts towards the peak
            peaks.append(bench.peak(call))
        ours, theirs = in_turns([bench.seconds] * 2, [calls], preset.repeats)
        faster, shown = ratio(theirs, ours)
        share = peaks[0] / peaks[1]
        bench.judge(f"{name}: times faster", faster)
        bench.judge(f"{name}: share of the peak", share)
        rows.append(
            [
                name,
                milliseconds(ours),
                milliseconds(theirs),
                shown,
                megabytes(peaks[0]),
                megabytes(peaks[1]),
                f"1/{1 / share:.1f}",
            ]
        )
    lines = [
        f"Width {preset.d_model}, vocabulary {preset.vocabulary:,}, {shape.batch} samples of {shape.positions} "
        f"positions, {shape.targets} of which carry loss. Forward and backward to the hidden states. Before the "
        f"timing both sides agreed: {within(preset.tolerances)}, relatively.",
        "",
    ]
    header = ["", "ms", "all positions, ms", "times faster", "peak, MB", "all positions, MB", "share of the peak"]
    return Section("Loss head", lines + table(header, rows))


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
        rate = bench.gemm_rate()
        ours, theirs = in_turns(steps, pairs, bench.preset.repeats)
        faster, shown = ratio(theirs, ours)
        seconds, less = statistics.median(ours), peaks[0] / peaks[1]
        share = step_flops(model, batches, 2 if phase is CALIBRATE else 1) / seconds / rate
        bench.judge(f"{name}, {texts.name} texts: times faster", faster)
        bench.judge(f"{name}, {texts.name} texts: share of the peak", less)
        bench.judge(f"{name}, {texts.name} texts: share of the GEMM rate", share)
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
                f"{share:.2f}",
                megabytes(peaks[0]),
                f"{megabytes(peaks[1])} ({less:.2f})",
            ]
        )
    return rows


def measure_steps(bench: Bench) -> Section:
    """Measure whole steps of both sides."""
    preset = bench.preset
    agreed = within(preset.tolerances)
    if preset.dtype != torch.float32:
        assert_same_in_float32(bench)
        agreed += f" (two layers in float32: {within(FLOAT32)})"
    rows = compared_steps(bench, COMMIT, preset.texts) + compared_steps(bench, CALIBRATE, preset.calibrate_texts)
    lines = [
        f"{preset.layers} layers of width {preset.d_model}, batches of {preset.batch_size}, {preset.queries} "
        f"visual tokens, {preset.patches} patches; mean of {preset.batches} micro-batches that stand for an epoch "
        f"in windows of {WINDOW}. FLOPs (real positions, language model and head) as a share of the GEMM rate of "
        f"the same run. Peak memory {'with' if bench.on_gpu else 'beyond'} weights and optimizer. Before the "
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
        "share of GEMM rate",
        "peak, MB",
        "upstream-style, MB (ratio)",
    ]
    return Section("Steps beside an upstream-style step", lines + table(header, rows))


def in_tf32(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a step whose products of float32 matrices a GPU rounds to TF32."""

    def rounded(batch: Any) -> Any:
        torch.set_float32_matmul_precision("high")
        try:
            return step(batch)
        finally:
            torch.set_float32_matmul_precision("highest")

    return rounded


def measure_calibrate(bench: Bench) -> Section:
    """Compare our Calibrate step with our Commit step on the same batches, and with bare language model passes."""
    bench.say("Calibrate beside Commit")
    commit, merged = without_calibrator(bench.model), with_merged_lora(bench.model)
    batches = our_batches(bench, make_records(bench.preset.texts[-1], bench.preset), COMMIT)
    parent, side = our_side(commit, COMMIT), our_side(merged, CALIBRATE)
    steps = [timed_step(bench, one, optimizer_of(one)) for one in (parent, side)] + [bare_passes(bench, merged)]
    steps.append(in_tf32(steps[0]))
    items = [[batch] * len(steps) for batch in batches]
    for item in items if bench.on_gpu else items[:1]:
        for step, batch in zip(steps, item, strict=True):
            step(batch)
    commits, calibrates, bare, rounded = in_turns(steps, items, bench.preset.repeats)
    bench.judge("Calibrate over Commit", ratio(calibrates, commits)[0])
    bench.judge("Calibrate over bare passes", ratio(calibrates, bare)[0])
    rows = [
        [name, milliseconds(times, len(items)), ratio(times, commits)[1], ratio(times, bare)[1]]
        for name, times in (
            ("Commit", commits),
            ("Calibrate", calibrates),
            ("bare forward, and bare forward and backward", bare),
            ("Commit, float32 products in TF32", rounded),
        )
    ]
    lines = [
        f"{bench.preset.texts[-1].name} texts, the same batches for all. Bare: the layers of the language model "
        "with LoRA folded in, from input embeddings to hidden states, without head, loss or update.",
        "",
    ]
    return Section("Calibrate beside Commit", lines + table(["", "ms", "over Commit", "over bare"], rows))


PARTS: dict[str, Callable[[Bench], Section]] = {
    "head": measure_head,
    "steps": measure_steps,
    "calibrate": measure_calibrate,
}


def run(preset: Preset, parts: Sequence[str]) -> list[Section]:
    """Measure ``parts`` of a preset, each with the bars that it was held to.

    Raises:
        Unequal: two sides of a comparison do not compute the same.
    """
    bench = Bench(preset, device_of(preset))
    sections = []
    for name in parts:
        gc.collect()
        section = PARTS[name](bench)
        sections.append(section._replace(bars=bench.bars))
        bench.bars = []
    bench.say("done")
    return sections


def report(preset: Preset, sections: Sequence[Section], command: str, load: float) -> str:
    """Return the results as Markdown."""
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
    for section in sections:
        lines += [f"## {section.title}", "", *section.lines]
    bars = [bar for section in sections for bar in section.bars]
    if bars:
        lines += ["## Bars", "", *table(["bar", "asked", "measured", ""], bars)]
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=PRESETS, default="cpu")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, by commas: {', '.join(PARTS)}")
    parser.add_argument("--miniature", action="store_true", help="tiny shapes on the CPU: does it run?")
    parser.add_argument("--out", type=Path, help="also write the results here")
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(given)
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    preset = PRESETS[options.preset]
    preset = miniature(preset) if options.miniature else preset
    load = os.getloadavg()[0]
    text = report(preset, run(preset, parts), " ".join(["python bench/train.py", *given]), load)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)


if __name__ == "__main__":
    main()
