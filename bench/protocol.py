"""Hours that the whole published protocol takes, from steps measured here at its shapes.

    python bench/protocol.py [--images RATE] [--records RATE]         # needs a GPU

A step of each phase is timed on micro-batches that represent an epoch in the published order, with dropout and update,
as in `bench/train.py`. The updates are those of `configs/mimic_rg4.yaml`, and the records those of the paper.
``--images`` and ``--records`` are rates per second, as measured by `bench/features.py` and `bench/decode.py`; without
one, its row is left out. No row includes reading, validation, labelling or scoring.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace

import torch
from measuring import Bench, device_of, table
from shapes import GPU, PACERS, PARAMS, UPSTREAM, make_records, miniature
from steps import (
    CALIBRATE,
    COMMIT,
    NAMES,
    WARMUP,
    optimizer_of,
    our_batches,
    our_side,
    timed_step,
    with_merged_lora,
    without_calibrator,
)

from pacer.data.audit import PAPER_RECORDS
from pacer.model.batch import Batch
from pacer.model.pacer import Pacer
from pacer.training.phases import Phase

#: Number of images in MIMIC-RG4, frontal and lateral.
IMAGES = 269_402
#: Number of test records in the four contexts.
RECORDS = sum(splits["test"] for splits in PAPER_RECORDS.values())


def batches_of(bench: Bench, phase: Phase) -> list[Batch]:
    """Return micro-batches of a phase in the published order; the warm-up's have one image and no instruction."""
    records = make_records(UPSTREAM if phase.frontal_only else PACERS, bench.preset)
    if phase.frontal_only:
        nothing = 0 * records.context
        records = replace(records, context=nothing, before=nothing, after=nothing)
    return our_batches(bench, records, phase, PARAMS.batches.window)


def step_seconds(bench: Bench, phase: Phase, model: Pacer) -> float:
    """Return the seconds per micro-batch: the median over turns of a turn's mean."""
    bench.say(f"{NAMES[phase.name]} step")
    side, batches = our_side(model, phase), batches_of(bench, phase)
    step = timed_step(bench, side, optimizer_of(side))
    for batch in batches:  # warm up: the optimizer allocates its memory, kernels are chosen
        step(batch)
    return statistics.median(sum(map(step, batches)) for _ in range(bench.preset.repeats)) / len(batches)


def measure(bench: Bench, images: float | None, records: float | None) -> list[str]:
    """Return the table; ``images`` and ``records`` are rates per second, if they were measured."""
    commit = without_calibrator(bench.model)
    merged = with_merged_lora(bench.model)
    models = ((WARMUP, without_calibrator(merged)), (COMMIT, commit), (CALIBRATE, merged))
    preset, rows, hours = bench.preset, [], []

    def add(what: str, count: int, unit: str, measured: str, seconds: float) -> None:
        hours.append(count * seconds / 3600)
        rows.append([what, f"{count:,} {unit}", measured, f"{hours[-1]:.3g}"])

    if images:
        add("features", IMAGES, "images", f"{images:,.1f} a second", 1 / images)
    for phase, model in models:
        seconds = step_seconds(bench, phase, model)
        count = phase.schedule.updates * phase.schedule.accumulation
        add(NAMES[phase.name], count, "micro-batches", f"{1e3 * seconds:,.1f} ms", seconds)
    if records:
        add("decode", RECORDS, "records", f"{records:,.1f} a second", 1 / records)
    rows.append(["all of these", "", "", f"{sum(hours):.3g}"])
    return [
        f"{preset.layers} layers of width {preset.d_model}, batches of {preset.batch_size} (warm-up: half as many more)"
        f", window {PARAMS.batches.window}; median of {preset.repeats} turns over {preset.batches} micro-batches.",
        "",
        *table(["", "how many", "measured", "hours"], rows),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--miniature", action="store_true", help="tiny shapes on the CPU: does it run?")
    parser.add_argument("--images", type=float, help="images a second of the stage features")
    parser.add_argument("--records", type=float, help="records a second of decoding")
    options = parser.parse_args()
    if not options.miniature and not torch.cuda.is_available():
        print("Left out: the published shapes need a GPU.")
        return
    preset = miniature(GPU) if options.miniature else GPU
    bench = Bench(preset, device_of(preset))
    print("\n".join(["# The whole protocol", "", *measure(bench, options.images, options.records)]))


if __name__ == "__main__":
    main()
