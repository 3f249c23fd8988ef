"""Training steps, compared with a straightforward implementation after LLM-RG4.

    python bench/train.py                                     # CPU shapes, under five minutes on two cores
    python bench/train.py --preset gpu --out bench/results/train.md   # the published model's shapes, on a GPU

All weights, texts and image states are random; only the shapes and the distribution of lengths matter. Both sides of a
comparison have the same weights and records. First, their losses and gradients are checked to agree, without dropout.
Then they are timed in turns, with dropout as in training; results are medians, and the range of the turns' ratios. A
step does forward, loss, backward and AdamW on a batch that is on the device. Memory is the peak that tensors hold at a
time. Nothing else should run meanwhile. Results are printed as Markdown.
"""

import copy
import gc
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from measuring import Meter, Preset, assert_close, in_turns, preset_of, publish, ratio, table
from shapes import PARAMS, WINDOW, RandomStates, make_batch, make_model, make_records, spread_batches
from torch import Tensor
from upstream_style import FixedBatch, calibrate_losses, commit_losses, fixed_layout

from pacer.model.batch import TrainingBatch
from pacer.model.pacer import Pacer
from pacer.training.losses import objective
from pacer.training.phases import Phase, phase_of

COMMIT, CALIBRATE = (phase_of(name, PARAMS) for name in ("parent", "calibrate"))
NAMES = {"parent": "Commit", "calibrate": "Calibrate"}
#: Relative tolerances of losses and of gradients between two sides in single precision.
FLOAT32 = (1e-5, 1e-4)


class Side(NamedTuple):
    """One side of a comparison of steps: a model, its phase, and the total and terms of its loss on a batch."""

    model: Pacer
    phase: Phase
    loss: Callable[[Any], tuple[Tensor, dict[str, Tensor]]]

    def trained(self, dropout: bool) -> dict[str, torch.nn.Parameter]:
        """Set gradients and dropout as in the phase, and return the parameters that it trains."""
        self.model.eval()
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(self.phase.trainable(name))
        for name, module in self.model.named_children():
            if dropout and any(prefix.split(".")[0] == name for prefix in self.phase.trains):
                module.train()
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}


def with_merged_lora(model: Pacer) -> Pacer:
    """Return the same modules with LoRA merged; only the weights that LoRA adapts are copies."""
    folded = {id(p) for name, p in model.language.named_parameters() if ".base_layer." in name}
    shared: dict[int, Any] = {id(p): p for p in model.language.parameters() if id(p) not in folded}
    merged = Pacer(
        copy.deepcopy(model.language, shared), model.endpoint_norm, model.router, model.interface, model.calibrator
    )
    merged.merge_lora()
    return merged


def sides_of(model: Pacer, phase: Phase) -> tuple[Side, Side]:
    """Return our side, which merges LoRA in Calibrate, and the baseline, which leaves it unmerged."""
    if phase is CALIBRATE:
        ours, theirs = with_merged_lora(model), model
    else:
        ours = theirs = Pacer(model.language, model.endpoint_norm, model.router, model.interface)
    weights = {"trajectory": 1.0, "emphasis": phase.losses.lambda_tlw}
    weights |= {"consistency": phase.losses.lambda_cons, "drift": phase.losses.lambda_drift}

    def our_loss(batch: TrainingBatch) -> tuple[Tensor, dict[str, Tensor]]:
        computed = objective(ours, batch, phase.losses)
        return computed.total, computed.parts

    def their_loss(batch: FixedBatch) -> tuple[Tensor, dict[str, Tensor]]:
        half = theirs.language.dtype == torch.bfloat16  # bf16-mixed, as upstream trains
        with torch.autocast(theirs.language.device.type, torch.bfloat16, enabled=half):
            parts = calibrate_losses(theirs, batch) if phase is CALIBRATE else commit_losses(theirs, batch)
        return torch.stack([weights[name] * part for name, part in parts.items()]).sum(), parts

    return Side(ours, phase, our_loss), Side(theirs, phase, their_loss)


def batches_of(model: Pacer, preset: Preset, phase: Phase) -> list[tuple[TrainingBatch, FixedBatch]]:
    """Return micro-batches that represent an epoch ordered in length windows, each also in the baseline's layout."""
    records, states = make_records(preset), RandomStates(preset, model.router.num_depths)
    micros = spread_batches(records, records.epoch(preset.batch_size), preset.batches)
    batches = [make_batch(records, micro, preset, states, phase.losses.lambda_q) for micro in micros]
    device = torch.device(preset.device)
    return [(batch.to(device), fixed_layout(batch, preset.queries).to(device)) for batch in batches]


def assert_same_step(sides: tuple[Side, Side], pair: tuple[TrainingBatch, FixedBatch], preset: Preset) -> None:
    """Assert that both sides have the same losses and gradients on a pair of batches, without dropout.

    Raises:
        Unequal: they differ.
    """
    losses, gradients = [], []
    for side, batch in zip(sides, pair, strict=True):
        trained = side.trained(dropout=False)
        loss, parts = side.loss(batch)
        loss.backward()
        losses.append({"total": loss.detach()} | {name: part.detach() for name, part in parts.items()})
        gradients.append({name: p.grad for name, p in trained.items() if p.grad is not None})
        for parameter in trained.values():
            parameter.grad = None
    what = f"{NAMES[sides[0].phase.name]}, {preset.dtype}"
    assert_close(f"{what}, loss", *losses, preset.tolerances[0])
    assert_close(f"{what}, gradient", *gradients, preset.tolerances[1])


def assert_same_in_float32(preset: Preset) -> None:
    """Assert that both sides agree closely for a model of two layers in float32.

    Raises:
        Unequal: they do not.
    """
    strict = Preset(**vars(preset) | {"dtype": "float32", "layers": 2, "tolerances": FLOAT32})
    model = make_model(strict)
    for phase in (COMMIT, CALIBRATE):
        assert_same_step(sides_of(model, phase), batches_of(model, strict, phase)[-1], strict)
    del model
    gc.collect()


def compared_steps(meter: Meter, model: Pacer, preset: Preset, phase: Phase) -> list[str]:
    """Return the table's row for a phase's step of both sides."""
    meter.say(f"{NAMES[phase.name]} step")
    sides, pairs = sides_of(model, phase), batches_of(model, preset, phase)
    assert_same_step(sides, pairs[-1], preset)
    optimizer = torch.optim.AdamW(
        sides[0].trained(dropout=True).values(), lr=phase.schedule.learning_rate, weight_decay=PARAMS.train.weight_decay
    )

    def timed(side: Side) -> Callable[[Any], float]:
        def step(batch: Any) -> None:
            side.loss(batch)[0].backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        side.trained(dropout=True)
        return lambda batch: meter.seconds(partial(step, batch))

    steps = [timed(side) for side in sides]
    steps[0](pairs[-1][0])  # the optimizer allocates its memory
    peaks = [meter.peak(partial(step, batch)) for step, batch in zip(steps, pairs[-1], strict=True)]
    ours, theirs = in_turns(steps, pairs, preset.repeats)
    times = (f"{1e3 * statistics.median(seconds) / len(pairs):,.1f}" for seconds in (ours, theirs))
    memory = f"{peaks[1]:,.1f} ({peaks[0] / peaks[1]:.2f})"
    return [NAMES[phase.name], *times, ratio(theirs, ours), f"{peaks[0]:,.1f}", memory]


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
    rows = [compared_steps(meter, model, preset, phase) for phase in (COMMIT, CALIBRATE)]
    header = ["step", "ms", "upstream-style, ms", "times faster", "peak, MB", "upstream-style, MB (ratio)"]
    return [
        f"{preset.layers} layers of width {preset.width}, batches of {preset.batch_size}, {preset.queries} visual "
        f"tokens, {preset.patches} patches; mean of {preset.batches} micro-batches that represent an epoch in windows "
        f"of {WINDOW}. Peak memory {'with' if meter.on_gpu else 'beyond'} weights and optimizer. Before the timing "
        f"both sides agreed: {told}, relatively. Ratios are of medians, in brackets the range of the turns.",
        "",
        *table(header, rows),
    ]


def main() -> None:
    preset, out = preset_of("train", __doc__)
    publish("Training beside an upstream-style step", preset.device, measure(preset), out)


if __name__ == "__main__":
    main()
