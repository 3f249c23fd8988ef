"""Both sides of the comparisons of steps in `bench/train.py`: models and losses by phase, batches, timed updates."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from measuring import Bench, Found, assert_agree
from shapes import FLOAT32, PACERS, PARAMS, WINDOW, Records, make_batch, make_records, spread_batches
from torch import Tensor
from upstream_style import FixedBatch, calibrate_losses, commit_losses, fixed_layout

from pacer.model.batch import TrainingBatch as Batch
from pacer.model.pacer import Pacer
from pacer.training.losses import objective
from pacer.training.phases import Phase, phase_of

WARMUP, COMMIT, CALIBRATE = (phase_of(name, PARAMS) for name in ("warmup", "parent", "calibrate"))
NAMES = {"warmup": "Warm-up", "parent": "Commit", "calibrate": "Calibrate"}
#: Weights of the loss's terms as in training.
LAMBDAS = {
    "trajectory": 1.0,
    "emphasis": PARAMS.train.lambda_tlw,
    "consistency": PARAMS.calibrate.lambda_cons,
    "drift": PARAMS.calibrate.lambda_drift,
}
#: Weights in the check of equality, where the regularisers count as much as the rest.
CHECKED = {"trajectory": 1.0, "emphasis": 0.75, "consistency": 1.0, "drift": 1.0}


# Models


def for_phase(model: Pacer, phase: Phase, training: bool = True) -> dict[str, torch.nn.Parameter]:
    """Set gradients and dropout as in the phase, and return the parameters that it trains."""
    model.eval()
    trained = {}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(phase.trainable(name))
        if parameter.requires_grad:
            trained[name] = parameter
    for name, module in model.named_children():
        if training and any(prefix.split(".")[0] == name for prefix in phase.trains):
            module.train()
    return trained


def without_calibrator(model: Pacer) -> Pacer:
    """Return the same modules as in the parent phase, without the calibrator."""
    return Pacer(model.language, model.endpoint_norm, model.router, model.interface)


def with_merged_lora(model: Pacer) -> Pacer:
    """Return the same modules with LoRA merged; only the weights that LoRA adapts are copies."""
    folded = {id(p) for name, p in model.language.named_parameters() if ".base_layer." in name}
    shared: dict[int, Any] = {id(p): p for p in model.language.parameters() if id(p) not in folded}
    merged = Pacer(
        copy.deepcopy(model.language, shared), model.endpoint_norm, model.router, model.interface, model.calibrator
    )
    merged.merge_lora()
    return merged


# Sides


class Side(NamedTuple):
    """One side of a comparison of steps: a model, its phase, and the total and terms of its loss on a batch."""

    model: Pacer
    phase: Phase
    loss: Callable[[Any], tuple[Tensor, dict[str, Tensor]]]


def our_side(model: Pacer, phase: Phase, lambdas: Mapping[str, float] = LAMBDAS) -> Side:
    """Return a side with the loss of :func:`pacer.training.losses.objective`."""
    losses = replace(phase.losses, lambda_tlw=lambdas["emphasis"])
    if phase is CALIBRATE:
        losses = replace(losses, lambda_cons=lambdas["consistency"], lambda_drift=lambdas["drift"])

    def loss(batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        found = objective(model, batch, losses, frontal_only=phase.frontal_only)
        return found.total, found.parts

    return Side(model, phase, loss)


def their_side(model: Pacer, phase: Phase, lambdas: Mapping[str, float] = LAMBDAS) -> Side:
    """Return a side with the loss of the baseline."""

    def loss(batch: FixedBatch) -> tuple[Tensor, dict[str, Tensor]]:
        half = model.language.dtype == torch.bfloat16  # bf16-mixed, as upstream trains
        with torch.autocast(model.language.device.type, torch.bfloat16, enabled=half):
            parts = calibrate_losses(model, batch) if phase is CALIBRATE else commit_losses(model, batch)
        return torch.stack([lambdas[name] * part for name, part in parts.items()]).sum(), parts

    return Side(model, phase, loss)


def model_of(bench: Bench, phase: Phase) -> Pacer:
    """Return our model for a phase."""
    return with_merged_lora(bench.model) if phase is CALIBRATE else without_calibrator(bench.model)


def sides_of(bench: Bench, phase: Phase, ours: Pacer, lambdas: Mapping[str, float] = LAMBDAS) -> tuple[Side, Side]:
    """Return our side with the model ``ours``, and the baseline, which leaves LoRA unmerged."""
    theirs = bench.model if phase is CALIBRATE else ours
    return our_side(ours, phase, lambdas), their_side(theirs, phase, lambdas)


# Batches


def our_batches(bench: Bench, records: Records, phase: Phase, window: int = WINDOW) -> list[Batch]:
    """Return micro-batches that represent an epoch ordered in length windows."""
    preset = bench.preset
    size = max(preset.batch_size * phase.schedule.batch_size // COMMIT.schedule.batch_size, 1)
    micros = spread_batches(records, records.epoch(size, window), preset.batches)
    return [bench.pinned(make_batch(records, micro, preset, bench.states, phase.losses.lambda_q)) for micro in micros]


def beside_theirs(bench: Bench, batches: Sequence[Batch]) -> list[tuple[Batch, FixedBatch]]:
    """Return each batch together with the same records in the baseline's layout."""
    return [
        (batch, bench.pinned(fixed_layout(batch, bench.preset.queries, PACERS.pad_before, PACERS.pad_target)))
        for batch in batches
    ]


# Steps


def optimizer_of(side: Side) -> torch.optim.Optimizer:
    """Return AdamW over the parameters that the phase trains."""
    return torch.optim.AdamW(
        for_phase(side.model, side.phase).values(),
        lr=side.phase.schedule.learning_rate,
        weight_decay=PARAMS.train.weight_decay,
    )


def timed_step(bench: Bench, side: Side, optimizer: torch.optim.Optimizer) -> Callable[[Any], float]:
    """Return a function that times an update on a batch; gradients and dropout are set before the clock starts."""

    def step(batch: Any) -> None:
        moved = batch.to(bench.device)
        loss, _ = side.loss(moved)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def timed(batch: Any) -> float:
        for_phase(side.model, side.phase)
        return bench.seconds(partial(step, batch))

    return timed


def most_memory(bench: Bench, timed: Callable[[Any], float], batches: Sequence[Any]) -> int:
    """Return the most bytes that a step on one of the batches holds; on a GPU including what is already allocated."""
    most = 0
    for batch in batches:
        held = torch.cuda.memory_allocated(bench.device) if bench.on_gpu else 0
        most = max(most, held + bench.peak(partial(timed, batch)))
    return most


# Equality


def loss_and_gradients(bench: Bench, side: Side, batch: Any) -> Found:
    """Return the terms of the loss and the gradients of all trained parameters, without dropout."""
    trained = for_phase(side.model, side.phase, training=False)
    loss, parts = side.loss(batch.to(bench.device))
    loss.backward()
    gradients = {name: p.grad for name, p in trained.items() if p.grad is not None}
    for parameter in trained.values():
        parameter.grad = None
    return {"total": loss.detach()} | {name: part.detach() for name, part in parts.items()}, gradients


def assert_same_step(bench: Bench, phase: Phase, ours: Pacer, pair: tuple[Batch, FixedBatch]) -> None:
    """Assert that both sides have the same loss and gradients on a pair of batches.

    Raises:
        Unequal: they differ.
    """
    found = [loss_and_gradients(bench, side, own) for side, own in zip(sides_of(bench, phase, ours, CHECKED), pair)]
    assert_agree(f"{NAMES[phase.name]}, {bench.preset.dtype}", *found, bench.preset.tolerances)


def assert_same_in_float32(bench: Bench) -> None:
    """Assert that both sides agree closely for a model of two layers in float32.

    Raises:
        Unequal: they do not.
    """
    bench.say("comparing two layers in float32")
    preset = bench.preset
    strict = Bench(replace(preset, dtype=torch.float32, layers=min(2, preset.layers), tolerances=FLOAT32), bench.device)
    for phase in (COMMIT, CALIBRATE):
        ours = model_of(strict, phase)
        batches = our_batches(strict, make_records(PACERS, preset), phase)[-1:]
        (pair,) = beside_theirs(strict, batches)
        assert_same_step(strict, phase, ours, pair)
    del strict, ours
    gc.collect()
