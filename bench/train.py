"""Training steps, compared with a straightforward implementation after LLM-RG4.

    python bench/train.py                                     # CPU shapes, under five minutes on
    two cores python bench/train.py --preset gpu --out bench/results/train.md   # the published
    model's shapes, on a GPU

All weights, texts and image states are random; only the shapes and the distribution of lengths
matter. Both sides of a comparison have the same weights and records. First, their losses and
gradients are checked to agree, without dropout. Then they are timed in turns, with dropout as in
training; results are medians, and the range of the turns' ratios. A step does forward, loss,
backward and AdamW on a batch that is on the device. Memory is the peak that tensors hold at a time.
Nothing else should run meanwhile. Results are printed as Markdown.

On a GPU our side is also timed in two ways that training does not have: with TF32 for float32
products, and with that and compiled blocks. Operations are counted by torch, and divided by what
the GPU does in a second in a large product of bfloat16 matrices.
"""

import copy
import gc
import statistics
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from measuring import Meter, Preset, assert_close, in_turns, preset_of, publish, ratio, table
from shapes import (
    PARAMS,
    WINDOW,
    RandomStates,
    make_batch,
    make_model,
    make_records,
    spread_batches,
)
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from upstream_style import FixedBatch, calibrate_losses, commit_losses, fixed_layout

from pacer.model.batch import TrainingBatch
from pacer.model.pacer import Pacer
from pacer.training.losses import objective
from pacer.training.phases import Phase, phase_of

COMMIT, CALIBRATE = (phase_of(name, PARAMS) for name in ("parent", "calibrate"))
NAMES = {"parent": "Commit", "calibrate": "Calibrate"}
#: Relative tolerances of losses and of gradients between two sides in single precision.
FLOAT32 = (1e-5, 1e-4)
#: Our ways to compute a step, each with whether float32 products use TF32, and whether blocks are
#: compiled.
WAYS = {
    "eager": (False, False),
    "TF32": (True, False),
    "compiled": (False, True),
    "TF32, compiled": (True, True),
}


@contextmanager
def computing(way: str) -> Generator[None]:
    """In this context, steps of a model with compiled blocks are computed in one of
    :data:`WAYS`."""
    tf32, compiled = WAYS[way]
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    with torch.compiler.set_stance("default" if compiled else "force_eager"):
        yield
    torch.set_float32_matmul_precision("highest")


class Side(NamedTuple):
    """One side of a comparison of steps: a model, its phase, the total and terms of its loss on a
    batch, and the way to compute them."""

    model: Pacer
    phase: Phase
    loss: Callable[[Any], tuple[Tensor, dict[str, Tensor]]]
    way: str = "eager"

    def trained(self, dropout: bool) -> dict[str, torch.nn.Parameter]:
        """Set gradients and dropout as in the phase, and return the parameters that it trains."""
        self.model.eval()
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(self.phase.trainable(name))
        for name, module in self.model.named_children():
            if dropout and any(prefix.split(".")[0] == name for prefix in self.phase.trains):
                module.train()
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def backward(self, batch: Any) -> dict[str, Tensor]:
        """Add the gradient of a batch to the parameters; return the total and the terms."""
        with computing(self.way):
            loss, parts = self.loss(batch)
            loss.backward()
        return {"total": loss.detach()} | {name: part.detach() for name, part in parts.items()}


def with_merged_lora(model: Pacer) -> Pacer:
    """Return the same modules with LoRA merged; only the weights that LoRA adapts are copies."""
    folded = {id(p) for name, p in model.language.named_parameters() if ".base_layer." in name}
    shared: dict[int, Any] = {id(p): p for p in model.language.parameters() if id(p) not in folded}
    merged = Pacer(
        copy.deepcopy(model.language, shared),
        model.endpoint_norm,
        model.router,
        model.interface,
        model.calibrator,
    )
    merged.merge_lora()
    return merged


def sides_of(model: Pacer, phase: Phase, ways: Sequence[str]) -> list[Side]:
    """Return our side in each way, which merges LoRA in Calibrate, and the baseline, which leaves
    it unmerged."""
    if phase is CALIBRATE:
        ours, theirs = with_merged_lora(model), model
    else:
        ours = theirs = Pacer(model.language, model.endpoint_norm, model.router, model.interface)
    weights = {"trajectory": 1.0, "emphasis": phase.losses.lambda_tlw}
    weights |= {
        "consistency": phase.losses.lambda_cons or 0.0,
        "drift": phase.losses.lambda_drift or 0.0,
    }

    def our_loss(batch: TrainingBatch) -> tuple[Tensor, dict[str, Tensor]]:
        computed = objective(ours, batch, phase.losses)
        return computed.total, computed.parts

    def their_loss(batch: FixedBatch) -> tuple[Tensor, dict[str, Tensor]]:
        half = theirs.language.dtype == torch.bfloat16  # bf16-mixed, as upstream trains
        with torch.autocast(theirs.language.device.type, torch.bfloat16, enabled=half):
            parts = (
                calibrate_losses(theirs, batch)
                if phase is CALIBRATE
                else commit_losses(theirs, batch)
            )
        return torch.stack([weights[name] * part for name, part in parts.items()]).sum(), parts

    return [*(Side(ours, phase, our_loss, way) for way in ways), Side(theirs, phase, their_loss)]


def batches_of(
    model: Pacer, preset: Preset, phase: Phase
) -> list[tuple[TrainingBatch, FixedBatch]]:
    """Return micro-batches that represent an epoch ordered in length windows, each also in the
    baseline's layout."""
    records, states = make_records(preset), RandomStates(preset, model.router.num_depths)
    micros = spread_batches(records, records.epoch(preset.batch_size), preset.batches)
    batches = [
        make_batch(records, micro, preset, states, phase.losses.lambda_q) for micro in micros
    ]
    device = torch.device(preset.device)
    return [(batch.to(device), fixed_layout(batch, preset.queries).to(device)) for batch in batches]


def assert_same_step(
    sides: Sequence[Side], pair: tuple[TrainingBatch, FixedBatch], preset: Preset
) -> None:
    """Assert that our ways have the losses and gradients of the baseline on a pair of batches,
    without dropout.

    Raises:
        Unequal: they differ.
    """
    results = []
    for side in sides:
        trained = side.trained(dropout=False)
        losses = side.backward(pair[side is sides[-1]])
        results.append(
            (losses, {name: p.grad for name, p in trained.items() if p.grad is not None})
        )
        for parameter in trained.values():
            parameter.grad = None
    for side, computed in zip(sides[:-1], results):
        what = f"{NAMES[side.phase.name]}, {side.way}, {preset.dtype}"
        for of, ours, theirs, tolerance in zip(
            ("loss", "gradient"), computed, results[-1], preset.tolerances
        ):
            assert_close(f"{what}, {of}", ours, theirs, tolerance)


@contextmanager
def compiled_blocks(model: Pacer, ways: Sequence[str]) -> Generator[None]:
    """In this context, the language model's blocks are compiled, if one of the ways asks for that:
    in one graph for all lengths, and without the last block, whose MLP the step changes."""
    if any(WAYS[way][1] for way in ways):
        for block in model.language.model.layers[:-1]:
            block.forward = torch.compile(block.forward, dynamic=True)
    yield
    for block in model.language.model.layers:
        vars(block).pop("forward", None)


def assert_same_in_float32(preset: Preset) -> None:
    """Assert that all sides agree closely for a model of two layers in float32, also compiled, but
    not with TF32.

    Raises:
        Unequal: they do not.
    """
    strict = Preset(**vars(preset) | {"dtype": "float32", "layers": 2, "tolerances": FLOAT32})
    model, ways = make_model(strict), ["eager", *({"compiled"} if len(preset.ways) > 1 else ())]
    for phase in (COMMIT, CALIBRATE):
        sides = sides_of(model, phase, ways)
        with compiled_blocks(sides[0].model, ways):
            assert_same_step(sides, batches_of(model, strict, phase)[-1], strict)
    del model
    gc.collect()


def compared_steps(
    meter: Meter, model: Pacer, preset: Preset, phase: Phase, rate: float
) -> list[list[str]]:
    """Return the table's rows for a phase's step: ours in each way, and the baseline's.

    Args:
        rate: TFLOP/s of a large product; 0: unknown.
    """
    meter.say(f"{NAMES[phase.name]} step")
    sides, pairs = sides_of(model, phase, preset.ways), batches_of(model, preset, phase)
    optimizer = torch.optim.AdamW(
        sides[0].trained(dropout=True).values(),
        lr=phase.schedule.learning_rate,
        weight_decay=PARAMS.train.weight_decay,
    )

    def timed(side: Side) -> Callable[[Any], float]:
        def step(batch: Any) -> None:
            side.backward(batch)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        side.trained(dropout=True)
        return lambda batch: meter.seconds(partial(step, batch))

    with compiled_blocks(sides[0].model, preset.ways):
        assert_same_step(sides, pairs[-1], preset)
        items, steps = (
            [(*[ours] * len(preset.ways), theirs) for ours, theirs in pairs],
            [*map(timed, sides)],
        )
        for side, step, batch in zip(
            sides, steps, items[-1]
        ):  # the optimizer allocates its memory; blocks are compiled
            meter.say(f"{NAMES[phase.name]}, {side.way}: first step {step(batch):.1f} s")
        peaks = [meter.peak(partial(step, batch)) for step, batch in zip(steps, items[-1])]
        times = in_turns(steps, items, preset.repeats)
        with FlopCounterMode(display=False) as counter:
            for batch, _ in pairs:
                sides[0].backward(batch)
    rows = []
    for name, taken, peak in zip([*preset.ways, "upstream-style"], times, peaks):
        seconds = statistics.median(taken)
        share = (
            f"{counter.get_total_flops() / 1e12 / seconds / rate:.2f}"
            if rate and taken is not times[-1]
            else ""
        )
        ms = f"{1e3 * seconds / len(pairs):,.1f}"
        rows.append(
            [f"{NAMES[phase.name]}, {name}", ms, ratio(times[-1], taken), share, f"{peak:,.1f}"]
        )
    return rows


def measure(preset: Preset) -> list[str]:
    """Compare the steps of both phases; return the results as Markdown."""
    meter, agreed = Meter(preset.device), "losses within {:g}, gradients within {:g}"
    told = agreed.format(*preset.tolerances)
    if preset.dtype != "float32":
        meter.say("comparing two layers in float32")
        assert_same_in_float32(preset)
        told += f" (two layers in float32: {agreed.format(*FLOAT32)})"
    meter.say("building the model")
    model = make_model(preset)
    rate = meter.product_rate() if meter.on_gpu else 0.0
    rows = [
        row
        for phase in (COMMIT, CALIBRATE)
        for row in compared_steps(meter, model, preset, phase, rate)
    ]
    header = ["step", "ms", "upstream-style's time over it", "share of the rate", "peak, MB"]
    told += ", relatively. Ratios are of medians, in brackets the range of the turns."
    told += (
        f" The rate: {rate:,.0f} TFLOP/s in a product of bfloat16 matrices of 8,192."
        if rate
        else ""
    )
    return [
        f"{preset.layers} layers of width {preset.width}, batches of {preset.batch_size}, "
        f"{preset.queries} visual tokens, {preset.patches} patches; mean of {preset.batches} "
        f"micro-batches that represent an epoch in windows of {WINDOW}. Peak memory "
        f"{'with' if meter.on_gpu else 'beyond'} weights and optimizer. Before the timing all "
        f"sides agreed: {told}",
        "",
        *table(header, rows),
    ]


def main() -> None:
    preset, out = preset_of("train", __doc__)
    publish("Training beside an upstream-style step", preset.device, measure(preset), out)


if __name__ == "__main__":
    main()
