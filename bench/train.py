"""Training steps, loss heads and padding, each beside what one writes straightforwardly after LLM-RG4.

    python bench/train.py                                     # CPU shapes, under five minutes on two cores
    python bench/train.py --preset gpu --out bench/results/train.md   # the published model's shapes, on a GPU
    python bench/train.py --only head,padding                 # some parts: head, steps, padding, calibrate, cost

All weights, texts and image states are random; the shapes and the distribution of lengths are what counts. Both sides
of a comparison have the same weights and records. That their losses and gradients agree is asserted first, without
dropout; then they are timed in turns, with dropout as in training: medians, and the range of the ratios of the turns.
A step is: batch to the device, forward, loss, backward, AdamW; reading records and features is not part of it.

Memory is the peak of what tensors hold at a time: torch.cuda.max_memory_allocated on a GPU, and on a CPU the running
sum of the allocations and releases that torch.profiler records (the resident peak of a fresh process whose freed
blocks go back at once was 5 MB above it, the matrix library's buffers). Nothing else should run meanwhile. Results are
printed as Markdown; a bar that is missed says so.
"""

from __future__ import annotations

import argparse
import copy
import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import torch
from shapes import (
    FLOAT32,
    PARAMS,
    PRESETS,
    WINDOW,
    HeadShape,
    Preset,
    RandomStates,
    Records,
    Texts,
    equal_records,
    language_flops,
    make_batch,
    make_model,
    make_records,
    spread_batches,
)
from torch import Tensor
from upstream_style import IGNORED, all_position_head, calibrate_losses, commit_losses, fixed_layout

from pacer.model.pacer import Batch, Pacer
from pacer.training.batches import MicroBatch, real_share
from pacer.training.head import head_losses
from pacer.training.objective import objective
from pacer.training.phases import Phase, phase_of

COMMIT, CALIBRATE = phase_of("parent", PARAMS), phase_of("calibrate", PARAMS)
NAMES = {"parent": "Commit", "calibrate": "Calibrate"}
LAMBDAS = {"trajectory": 1.0, "emphasis": PARAMS.train.lambda_tlw, "consistency": PARAMS.calibrate.lambda_cons,
           "drift": PARAMS.calibrate.lambda_drift}

Lines = list[str]


class Unequal(AssertionError):
    """The two sides of a comparison do not compute the same."""


class Section(NamedTuple):
    """One part's results: title, Markdown lines, and the rows of the bars that it was held to."""

    title: str
    lines: Lines
    bars: list[list[str]]


# Comparing and timing


def assert_close(what: str, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], tolerance: float) -> None:
    """Both sides have the same entries, and each differs by at most ``tolerance`` of its norm (entries that are small
    beside the others: of a hundredth of the largest norm).

    Raises:
        Unequal: they do not, or a value is not finite.
    """
    if set(ours) != set(theirs):
        raise Unequal(f"{what}: only one side has {', '.join(sorted(set(ours) ^ set(theirs)))}")
    largest = max(float(value.double().norm()) for value in theirs.values())
    for name, expected in theirs.items():
        own, known = ours[name].double(), expected.double()
        difference, allowed = float((own - known).norm()), tolerance * max(float(known.norm()), 0.01 * largest)
        if not difference <= allowed:
            raise Unequal(f"{what}: {name} differs by {difference:.3g}, allowed are {allowed:.3g}")


def within(tolerances: tuple[float, float]) -> str:
    """Tolerances of :func:`assert_close` in words."""
    return f"losses within {tolerances[0]:g}, gradients within {tolerances[1]:g}"


def wait(device: torch.device) -> None:
    """Until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(call: Callable[[], Any], device: torch.device) -> float:
    """Seconds of one call, its work on the device included."""
    wait(device)
    started = time.perf_counter()
    call()
    wait(device)
    return time.perf_counter() - started


def in_turns(sides: Sequence[Callable[[Any], float]], items: Sequence[Any], repeats: int) -> list[list[float]]:
    """Seconds of each side over all ``items``, ``repeats`` times; the sides take turns item by item.

    Args:
        sides: each takes one item and returns its seconds. items: each with one entry per side.
    """
    gc.collect()
    totals = [[0.0] * repeats for _ in sides]
    for repeat in range(repeats):
        for item in items:
            for place, side in enumerate(sides):
                totals[place][repeat] += side(item[place])
    return totals


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> tuple[float, str]:
    """Ratio of the medians, and the same as text with the range of the turns' ratios."""
    value = statistics.median(numerator) / statistics.median(denominator)
    turns = [a / b for a, b in zip(numerator, denominator)]
    return value, f"{value:.2f} ({min(turns):.2f} to {max(turns):.2f})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Lines:
    """A Markdown table and a blank line; the first column to the left."""
    rule = "|---|" + "---:|" * (len(header) - 1)
    return ["| " + " | ".join(header) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows), ""]


def milliseconds(values: Sequence[float], count: int = 1) -> str:
    """Median of ``values`` in milliseconds, divided among ``count``."""
    return f"{1e3 * statistics.median(values) / count:,.1f}"


def megabytes(amount: float) -> str:
    """Bytes in megabytes."""
    return f"{amount / 1e6:,.1f}"


@dataclass
class Bench:
    """One run: the preset on a device, the model when it is first asked for, and the bars met so far."""

    preset: Preset
    device: torch.device
    started: float = field(default_factory=time.perf_counter)
    bars: list[list[str]] = field(default_factory=list)

    @cached_property
    def model(self) -> Pacer:
        """LoRA unmerged, with a calibrator."""
        self.say("building the model")
        return make_model(self.preset, self.device)

    @cached_property
    def states(self) -> RandomStates:
        """Image and text states of the samples."""
        return RandomStates(self.preset, self.model.router.num_depths)

    def say(self, text: str) -> None:
        """One line of progress."""
        print(f"[{time.perf_counter() - self.started:6.1f} s] {text}", file=sys.stderr, flush=True)

    def judge(self, name: str, value: float) -> None:
        """Note how ``value`` stands to the bar of this name, if the preset has one."""
        if name in self.preset.limits:
            sign, limit = self.preset.limits[name]
            met = value >= limit if sign == ">=" else value <= limit
            self.bars.append([name, f"{'≥' if sign == '>=' else '≤'} {limit:.3g}", f"{value:.3g}",
                              "met" if met else "**missed**"])

    def autocast(self) -> AbstractContextManager:
        """Mixed precision as in training: where the frozen weights have half the width."""
        half = self.preset.dtype == torch.bfloat16
        return torch.autocast(self.device.type, torch.bfloat16) if half else nullcontext()

    def gemm_rate(self) -> float:
        """FLOP/s of a large square matrix product in the frozen weights' type: the median of ten."""
        side = self.preset.gemm
        left, right = (torch.randn(side, side, device=self.device).to(self.preset.dtype) for _ in range(2))
        times = [seconds_of(lambda: left @ right, self.device) for _ in range(12)][2:]
        return 2 * side**3 / statistics.median(times)

    def peak(self, call: Callable[[], Any]) -> int:
        """Most bytes that tensors hold during ``call``, beyond what they held before."""
        if self.device.type == "cuda":
            wait(self.device)
            before = torch.cuda.memory_allocated(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            call()
            wait(self.device)
            return torch.cuda.max_memory_allocated(self.device) - before
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            call()
        events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
        changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
        return max(accumulate(changes, initial=0))

    def on_gpu(self) -> bool:
        """Whether batches should lie in page-locked memory."""
        return self.device.type == "cuda"


# Part: the loss head


class HeadCase(NamedTuple):
    """Inputs of the loss head: hidden, teacher [B, T, d]; head [V, d]; labels, weight, divergence_weight [B, T]."""

    hidden: Tensor
    head: Tensor
    labels: Tensor
    weight: Tensor
    teacher: Tensor | None
    divergence_weight: Tensor | None


def head_case(shape: HeadShape, preset: Preset, device: torch.device, divergence: bool) -> HeadCase:
    """Random inputs with the targets at each sample's end."""
    torch.manual_seed(1)
    size = (shape.batch, shape.positions)
    with torch.device(device):
        hidden = torch.randn(*size, preset.d_model).to(preset.dtype)
        teacher = (hidden + 0.3 * torch.randn(*size, preset.d_model)).to(preset.dtype)
        head = (torch.randn(preset.vocabulary, preset.d_model) * preset.d_model**-0.5).to(preset.dtype)
        labels = torch.full(size, IGNORED)
        weight, share = torch.zeros(size), torch.zeros(size)
        last = slice(-shape.targets, None)
        count = shape.batch * shape.targets
        labels[:, last] = torch.randint(preset.vocabulary, (shape.batch, shape.targets))
        weight[:, last] = (1 + torch.rand(shape.batch, shape.targets)) / count
        share[:, last] = 1 / count
    return HeadCase(hidden.requires_grad_(), head, labels, weight, *((teacher, share) if divergence else (None, None)))


def our_head(case: HeadCase) -> Tensor:
    """The loss of :func:`pacer.training.head.head_losses`, with a gradient to all hidden states."""
    places = case.labels != IGNORED
    return head_losses(
        case.hidden[places], case.head, case.labels[places], case.weight[places],
        None if case.teacher is None else case.teacher[places],
        None if case.divergence_weight is None else case.divergence_weight[places],
    ).total  # fmt: skip


def their_head(case: HeadCase) -> Tensor:
    """The same loss with logits for all positions."""
    return all_position_head(*case)


HEADS: dict[str, Callable[[HeadCase], Tensor]] = {"ours": our_head, "theirs": their_head}


def head_step(side: str, case: HeadCase) -> Tensor:
    """Loss, and its gradient in ``case.hidden.grad``."""
    case.hidden.grad = None
    loss = HEADS[side](case)
    loss.backward()
    return loss.detach()


def head_seconds(bench: Bench, case: HeadCase, side: str) -> float:
    """Seconds of :func:`head_step`."""
    return seconds_of(lambda: head_step(side, case), bench.device)


def head_peak(bench: Bench, case: HeadCase, side: str) -> int:
    """Bytes that :func:`head_step` holds at most beyond its inputs; the gradient counts."""
    case.hidden.grad = None
    return bench.peak(lambda: head_step(side, case))


def measure_head(bench: Bench) -> Section:
    """Time and peak memory of the loss head, with and without the divergence."""
    preset, shape, rows = bench.preset, bench.preset.head, []
    for name, divergence in (("Cross-entropy", False), ("Cross-entropy and KL", True)):
        bench.say(f"loss head: {name}")
        case = head_case(shape, preset, bench.device, divergence)
        found = {}
        for side in HEADS:
            loss = head_step(side, case)
            assert case.hidden.grad is not None
            found[side] = ({"loss": loss}, {"hidden": case.hidden.grad.clone()})
        for what, place in (("loss", 0), ("gradient", 1)):
            assert_close(f"{name}: {what}", found["ours"][place], found["theirs"][place], preset.tolerances[place])
        peaks = [head_peak(bench, case, side) for side in HEADS]
        ours, theirs = in_turns([partial(head_seconds, bench, case)] * 2, [("ours", "theirs")], preset.repeats)
        faster, told = ratio(theirs, ours)
        share = peaks[0] / peaks[1]
        bench.judge(f"{name}: times faster", faster)
        bench.judge(f"{name}: share of the peak", share)
        rows.append([name, milliseconds(ours), milliseconds(theirs), told, megabytes(peaks[0]), megabytes(peaks[1]),
                     f"1/{1 / share:.1f}"])
    lines = [f"Width {preset.d_model}, vocabulary {preset.vocabulary:,}, {shape.batch} samples of {shape.positions} "
             f"positions, {shape.targets} of which carry loss. Forward and backward to the hidden states. Before the "
             f"timing both sides agreed: {within(preset.tolerances)}, relatively.", ""]
    header = ["", "ms", "all positions, ms", "times faster", "peak, MB", "all positions, MB", "share of the peak"]
    return Section("Loss head", lines + table(header, rows), [])


# Part: whole steps


def for_phase(model: Pacer, phase: Phase, training: bool = True) -> dict[str, torch.nn.Parameter]:
    """Switch gradients and dropout as the phase has them; returns what it trains."""
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
    """The same modules as the parent phase has them."""
    return Pacer(model.language, model.endpoint_norm, model.router, model.interface)


def with_merged_lora(model: Pacer) -> Pacer:
    """The same modules with LoRA folded in; only the weights beside LoRA are copies."""
    folded = {id(p) for name, p in model.language.named_parameters() if ".base_layer." in name}
    shared: dict[int, Any] = {id(p): p for p in model.language.parameters() if id(p) not in folded}
    merged = Pacer(copy.deepcopy(model.language, shared), model.endpoint_norm, model.router, model.interface,
                   model.calibrator)
    merged.merge_lora()
    return merged


class Side(NamedTuple):
    """One side of a comparison of steps: a model, its phase, and the terms of its loss on a batch."""

    model: Pacer
    phase: Phase
    loss: Callable[[Pacer, Any], tuple[Tensor, dict[str, Tensor]]]


def our_loss(phase: Phase, lambdas: Mapping[str, float] = LAMBDAS) -> Callable[[Pacer, Batch], Any]:
    """Total and terms of :func:`pacer.training.objective.objective`."""
    weights: dict[str, Any] = {"lambda_tlw": lambdas["emphasis"]}
    if phase.regularised:
        weights |= {"lambda_cons": lambdas["consistency"], "lambda_drift": lambdas["drift"]}

    def loss(model: Pacer, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        found = objective(model, batch, warmup=phase.bare, regularised=phase.regularised, **weights)
        return found.total, found.parts

    return loss


def their_loss(phase: Phase, lambdas: Mapping[str, float] = LAMBDAS) -> Callable[[Pacer, Any], Any]:
    """Total and terms of the baseline."""

    def loss(model: Pacer, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        parts = calibrate_losses(model, batch) if phase.regularised else commit_losses(model, batch)
        return torch.stack([lambdas[name] * part for name, part in parts.items()]).sum(), parts

    return loss


def optimizer_of(phase: Phase, model: Pacer) -> torch.optim.Optimizer:
    """AdamW over what the phase trains."""
    return torch.optim.AdamW(for_phase(model, phase).values(), lr=phase.learning_rate,
                             weight_decay=PARAMS.train.weight_decay)


def step(bench: Bench, side: Side, optimizer: torch.optim.Optimizer, batch: Any) -> None:
    """One update on one batch."""
    moved = batch.to(bench.device)
    with bench.autocast():
        loss, _ = side.loss(side.model, moved)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def timed_step(bench: Bench, side: Side, optimizer: torch.optim.Optimizer) -> Callable[[Any], float]:
    """Seconds of one update on a batch; gradients and dropout are switched before the clock starts."""

    def timed(batch: Any) -> float:
        for_phase(side.model, side.phase)
        return seconds_of(lambda: step(bench, side, optimizer, batch), bench.device)

    return timed


def loss_and_gradients(bench: Bench, side: Side, batch: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Terms of the loss and the gradients of all that is trained, without dropout."""
    trained = for_phase(side.model, side.phase, training=False)
    with bench.autocast():
        loss, parts = side.loss(side.model, batch.to(bench.device))
    loss.backward()
    gradients = {name: p.grad for name, p in trained.items() if p.grad is not None}
    for parameter in trained.values():
        parameter.grad = None
    return {"total": loss.detach()} | {name: part.detach() for name, part in parts.items()}, gradients


def assert_same_step(bench: Bench, what: str, ours: Side, theirs: Side, batches: Sequence[tuple[Any, Any]]) -> None:
    """Both sides have the same loss and gradients on every pair of batches.

    Raises:
        Unequal: they have not.
    """
    for pair in batches:
        ours_found, theirs_found = (loss_and_gradients(bench, side, own) for side, own in zip((ours, theirs), pair))
        for kind, place in (("loss", 0), ("gradient", 1)):
            assert_close(f"{what}, {kind}", ours_found[place], theirs_found[place], bench.preset.tolerances[place])


def records_of(texts: Texts, preset: Preset) -> Records:
    """The synthetic corpus of one kind of texts."""
    return make_records(texts, preset.records, preset.queries)


def our_batches(bench: Bench, records: Records, phase: Phase) -> list[Batch]:
    """Micro-batches of an epoch in length windows that stand for all of them."""
    preset = bench.preset
    micros = spread_batches(records, records.epoch(preset.batch_size, WINDOW), preset.batches)
    batches = [make_batch(records, micro, preset, bench.states, phase.lambda_q) for micro in micros]
    return [batch.pin_memory() for batch in batches] if bench.on_gpu() else batches


def beside_theirs(bench: Bench, batches: Sequence[Batch], texts: Texts) -> list[tuple[Batch, Any]]:
    """Each batch and the same records in the baseline's layout."""
    fixed = [fixed_layout(batch, bench.preset.queries, texts.pad_before, texts.pad_target) for batch in batches]
    return list(zip(batches, [own.pin_memory() for own in fixed] if bench.on_gpu() else fixed))


def real_tokens(batches: Sequence[Batch]) -> int:
    """Positions that are not padding."""
    return sum(int(batch.length.sum()) for batch in batches)


def real_flops(bench: Bench, batches: Sequence[Batch], forwards: int = 1) -> float:
    """FLOPs of steps over all batches; see :func:`language_flops`."""
    config = bench.model.language.config
    return sum(language_flops(config, batch.length.tolist(), int(batch.predicted.sum()), forwards=forwards)
               for batch in batches)


def most_memory(bench: Bench, own: Callable[[Any], float], batches: Sequence[Any]) -> int:
    """Most bytes that a step on one of the batches holds; on a GPU with all that lies there already."""
    most = 0
    for batch in batches:
        held = torch.cuda.memory_allocated(bench.device) if bench.on_gpu() else 0
        most = max(most, held + bench.peak(lambda batch=batch: own(batch)))
    return most


#: Weights of the terms in the check of equality: the regularisers count as much as the rest.
CHECKED = {"trajectory": 1.0, "emphasis": 0.75, "consistency": 1.0, "drift": 1.0}


def sides_of(bench: Bench, phase: Phase, ours: Pacer, lambdas: Mapping[str, float] = LAMBDAS) -> tuple[Side, Side]:
    """Our side with the model ``ours``, and the baseline, which leaves LoRA unmerged."""
    theirs = bench.model if phase.regularised else ours
    return Side(ours, phase, our_loss(phase, lambdas)), Side(theirs, phase, their_loss(phase, lambdas))


def model_of(bench: Bench, phase: Phase) -> Pacer:
    """Our model of a phase."""
    return with_merged_lora(bench.model) if phase.regularised else without_calibrator(bench.model)


def assert_same_phase(bench: Bench, phase: Phase, ours: Pacer, texts: Texts, pairs: Sequence[tuple[Any, Any]]) -> None:
    """Both sides agree on the last pair of batches.

    Raises:
        Unequal: they do not.
    """
    what = f"{NAMES[phase.name]}, {texts.name} texts, {bench.preset.dtype}"
    assert_same_step(bench, what, *sides_of(bench, phase, ours, CHECKED), pairs[-1:])


def assert_same_in_float32(bench: Bench) -> None:
    """Both sides agree closely in a model of two layers that is not rounded.

    Raises:
        Unequal: they do not.
    """
    bench.say("comparing two layers in float32")
    preset = bench.preset
    strict = Bench(replace(preset, dtype=torch.float32, layers=min(2, preset.layers), tolerances=FLOAT32), bench.device)
    for phase in (COMMIT, CALIBRATE):
        ours = model_of(strict, phase)
        for texts in preset.texts:
            batches = our_batches(strict, records_of(texts, preset), phase)[-1:]
            assert_same_phase(strict, phase, ours, texts, beside_theirs(strict, batches, texts))
    del strict, ours
    gc.collect()


def compared_steps(bench: Bench, phase: Phase, kinds: Sequence[Texts]) -> list[list[str]]:
    """Rows of the table: a phase's step of both sides, for each kind of texts."""
    name = NAMES[phase.name]
    model = model_of(bench, phase)
    optimizer = optimizer_of(phase, model)
    sides = sides_of(bench, phase, model)
    rows = []
    for texts in kinds:
        bench.say(f"{name} step, {texts.name} texts")
        batches = our_batches(bench, records_of(texts, bench.preset), phase)
        pairs = beside_theirs(bench, batches, texts)
        assert_same_phase(bench, phase, model, texts, pairs)
        steps = [timed_step(bench, side, optimizer) for side in sides]
        for batch, _ in pairs if bench.on_gpu() else pairs[-1:]:  # the optimizer takes its memory
            steps[0](batch)
        peaks = [most_memory(bench, own, [pair[place] for pair in (pairs if bench.on_gpu() else pairs[-1:])])
                 for place, own in enumerate(steps)]
        rate = bench.gemm_rate()
        ours, theirs = in_turns(steps, pairs, bench.preset.repeats)
        faster, told = ratio(theirs, ours)
        seconds = statistics.median(ours)
        share = real_flops(bench, batches, 2 if phase.regularised else 1) / seconds / rate
        bench.judge(f"{name}, {texts.name} texts: times faster", faster)
        bench.judge(f"{name}, {texts.name} texts: share of the peak", peaks[0] / peaks[1])
        bench.judge(f"{name}, {texts.name} texts: share of the GEMM rate", share)
        padded = sum(own.mask.numel() for _, own in pairs) / sum(batch.ids.numel() for batch in batches)
        rows.append([f"{name}, {texts.name}", milliseconds(ours, len(pairs)), milliseconds(theirs, len(pairs)), told,
                     f"{padded:.2f}", f"{real_tokens(batches) / seconds:,.0f}", f"{share:.2f}", megabytes(peaks[0]),
                     f"{megabytes(peaks[1])} ({peaks[0] / peaks[1]:.2f})"])
    return rows


def measure_steps(bench: Bench) -> Section:
    """Whole steps of both sides."""
    preset = bench.preset
    agreed = within(preset.tolerances)
    if preset.dtype != torch.float32:
        assert_same_in_float32(bench)
        agreed += f" (two layers in float32: {within(FLOAT32)})"
    rows = compared_steps(bench, COMMIT, preset.texts) + compared_steps(bench, CALIBRATE, preset.calibrate_texts)
    lines = [f"{preset.layers} layers of width {preset.d_model}, batches of {preset.batch_size}, {preset.queries} "
             f"visual tokens, {preset.patches} patches; mean of {preset.batches} micro-batches that stand for an epoch "
             f"in windows of {WINDOW}. FLOPs (real positions, language model and head) as a share of the GEMM rate of "
             f"the same run. Peak memory {'with' if bench.on_gpu() else 'beyond'} weights and optimizer. Before the "
             f"timing both sides agreed: {agreed}, relatively.", ""]
    header = ["step, texts", "ms", "upstream-style, ms", "times faster", "its positions over ours", "real tokens/s",
              "share of GEMM rate", "peak, MB", "upstream-style, MB (ratio)"]
    return Section("Steps beside an upstream-style step", lines + table(header, rows), [])


# Part: padding


def measure_padding(bench: Bench) -> Section:
    """Real over padded positions of one epoch, by order of training."""
    preset, rows = bench.preset, []
    for texts in preset.texts:
        bench.say(f"padding, {texts.name} texts")
        records = records_of(texts, preset)
        published = records.epoch(preset.batch_size, 1)
        fixed = fixed_share(records, published, texts)
        shares = [real_share(published, records.lengths),
                  real_share(records.epoch(preset.batch_size, WINDOW), records.lengths)]
        real = sum(int(records.tokens(micro.rows, micro.visits).sum()) for micro in published)
        rows.append([texts.name, f"{real / sum(len(micro.rows) for micro in published):.0f}", f"{fixed:.3f}",
                     *(f"{share:.3f}" for share in shares), f"{shares[1] / fixed:.2f}"])
    header = ["texts", "real positions of a sample", "fixed padding", "padded to the batch, published order (window 1)",
              f"window {WINDOW}", "fewer positions than fixed padding"]
    lines = [f"Real over padded positions, {preset.records:,} records, batches of {preset.batch_size}.", ""]
    return Section("Padding", lines + table(header, rows), [])


def fixed_share(records: Records, micros: Sequence[MicroBatch], texts: Texts) -> float:
    """Real over padded positions in the baseline's layout."""
    real = padded = 0
    for micro in micros:
        commits = records.commits(micro.rows, micro.visits)
        after = [int((records.after_commit if commit else records.after)[row])
                 for row, commit in zip(micro.rows, commits)]
        real += int(records.tokens(micro.rows, micro.visits).sum())
        padded += len(micro.rows) * (1 + texts.pad_before + records.queries + max(after) + texts.pad_target)
    return real / padded


# Part: Calibrate over Commit


def measure_calibrate(bench: Bench) -> Section:
    """Our Calibrate step beside our Commit step on the same batches, and beside bare passes of the language model."""
    bench.say("Calibrate beside Commit")
    commit, merged = without_calibrator(bench.model), with_merged_lora(bench.model)
    batches = our_batches(bench, records_of(bench.preset.texts[-1], bench.preset), COMMIT)
    stored = [with_stored_sources(bench, merged, batch) for batch in batches]
    side = Side(merged, CALIBRATE, our_loss(CALIBRATE))
    for batch, own in zip(batches, stored):
        (loss, _), (again, _) = (loss_and_gradients(bench, side, one) for one in (batch, own))
        assert_close("Calibrate with stored sources", again, loss, bench.preset.tolerances[0])
    optimizer = optimizer_of(CALIBRATE, merged)
    calibrate = timed_step(bench, side, optimizer)
    steps = [timed_step(bench, Side(commit, COMMIT, our_loss(COMMIT)), optimizer_of(COMMIT, commit)),
             calibrate, calibrate, bare_passes(bench, merged)]
    items = [(batch, batch, own, batch) for batch, own in zip(batches, stored)]
    for item in items if bench.on_gpu() else items[:1]:
        for own, batch in zip(steps, item):
            own(batch)
    commits, calibrates, stored_ones, bare = in_turns(steps, items, bench.preset.repeats)
    bench.judge("Calibrate over Commit", ratio(calibrates, commits)[0])
    bench.judge("Calibrate over bare passes", ratio(calibrates, bare)[0])
    rows = [
        [name, milliseconds(times, len(items)), ratio(times, commits)[1], ratio(times, bare)[1]]
        for name, times in (("Commit", commits), ("Calibrate", calibrates),
                            ("Calibrate, compressed sources computed beforehand", stored_ones),
                            ("bare forward, and bare forward and backward", bare))
    ]  # fmt: skip
    lines = [f"{bench.preset.texts[-1].name} texts, the same batches for all. Bare: the layers of the language model "
             "with LoRA folded in, from input embeddings to hidden states, without head, loss or update.", ""]
    return Section("Calibrate beside Commit", lines + table(["", "ms", "over Commit", "over bare"], rows), [])


def with_stored_sources(bench: Bench, model: Pacer, batch: Batch) -> Batch:
    """The batch with its compressed sources instead of its states."""
    for_phase(model, CALIBRATE, training=False)
    with torch.no_grad(), bench.autocast():
        tokens = model.compress(batch.to(bench.device)).tokens.to("cpu", bench.preset.dtype)
    stored = replace(batch, frontal=None, lateral=None, prior=None, prior_mask=None, compressed=tokens)
    return stored.pin_memory() if bench.on_gpu() else stored


def bare_passes(bench: Bench, model: Pacer) -> Callable[[Batch], float]:
    """Seconds of a forward pass without and one with a backward pass through the language model's layers."""

    def timed(batch: Batch) -> float:
        for_phase(model, CALIBRATE)
        size = (*batch.ids.shape, model.language.config.hidden_size)
        inputs = torch.randn(size, device=bench.device).to(bench.preset.dtype)
        slope = torch.randn_like(inputs)

        def passes() -> None:
            with bench.autocast():
                with torch.no_grad():
                    model.hidden(inputs)
                hidden = model.hidden(inputs.detach().requires_grad_())
            hidden.backward(slope.to(hidden.dtype))

        return seconds_of(passes, bench.device)

    return timed


# Part: cost against width, length and batch size


def measure_cost(bench: Bench) -> Section:
    """Our Commit step at three widths, lengths and batch sizes, all samples of a batch equally long."""
    preset = bench.preset
    size, length = preset.batch_size, preset.lengths[-1]
    rate = bench.gemm_rate()
    rows = []
    for width in preset.widths:
        bench.say(f"cost, width {width}")
        model = make_model(preset, bench.device, d_model=width, layers=preset.width_layers)
        rows.append(cost_row(bench, model, size, length, rate))
        del model
    for length in preset.lengths:
        bench.say(f"cost, length {length}")
        rows.append(cost_row(bench, bench.model, size, length, rate))
    for size in preset.batch_sizes:
        bench.say(f"cost, batch {size}")
        rows.append(cost_row(bench, bench.model, size, preset.lengths[0], rate))
    again = bench.gemm_rate()
    lines = [f"A quarter of the positions carries loss. GEMM rate ({preset.gemm} x {preset.gemm}, "
             f"{str(preset.dtype).removeprefix('torch.')}) before and after: {rate / 1e9:,.0f} and {again / 1e9:,.0f} "
             "GFLOP/s. FLOPs by formula: 4 N a position of the frozen layers (forward, and backward to the input), "
             "6 t^2 d of attention a layer and sample, 4 d V of the head a target; the share is of the first rate.", ""]
    header = ["layers", "width", "length", "batch", "ms", "TFLOP", "GFLOP/s", "share of GEMM rate"]
    return Section("Cost of a Commit step", lines + table(header, rows), [])


def cost_row(bench: Bench, model: Pacer, size: int, length: int, rate: float) -> list[str]:
    """Our Commit step of one model on one batch."""
    commit = without_calibrator(model)
    records = equal_records(length, size, bench.preset.queries)
    batch = make_batch(records, records.epoch(size, 1)[0], bench.preset, bench.states, COMMIT.lambda_q)
    batch = batch.pin_memory() if bench.on_gpu() else batch
    own = timed_step(bench, Side(commit, COMMIT, our_loss(COMMIT)), optimizer_of(COMMIT, commit))
    own(batch)
    times = [own(batch) for _ in range(bench.preset.repeats)]
    config = model.language.config
    flops = language_flops(config, batch.length.tolist(), int(batch.predicted.sum()))
    speed = flops / statistics.median(times)
    return [str(config.num_hidden_layers), str(config.hidden_size), str(batch.ids.shape[1]), str(size),
            milliseconds(times), f"{flops / 1e12:.3g}", f"{speed / 1e9:,.0f}", f"{speed / rate:.2f}"]


# The run

PARTS: dict[str, Callable[[Bench], Section]] = {
    "head": measure_head,
    "steps": measure_steps,
    "padding": measure_padding,
    "calibrate": measure_calibrate,
    "cost": measure_cost,
}


def run(preset: Preset, parts: Sequence[str]) -> list[Section]:
    """Measure ``parts`` of a preset, each with the bars that it was held to.

    Raises:
        Unequal: two sides of a comparison do not compute the same.
    """
    device = torch.device(preset.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    bench = Bench(preset, device)
    sections = []
    for name in parts:
        gc.collect()
        section = PARTS[name](bench)
        sections.append(section._replace(bars=bench.bars))
        bench.bars = []
    bench.say("done")
    return sections


def hardware(device: torch.device) -> str:
    """The machine in words."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    words = f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"
    return f"{words}; {torch.cuda.get_device_name(device)}" if device.type == "cuda" else f"{words}; no GPU used"


def report(preset: Preset, sections: Sequence[Section], command: str, load: float) -> str:
    """The results as Markdown."""
    device = torch.device(preset.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    versions = ", ".join([f"Python {platform.python_version()}",
                          *(f"{name} {version(name)}" for name in ("torch", "transformers", "peft"))])
    lines = ["# Training beside an upstream-style step", "",
             f"`{command}`, {time.strftime('%Y-%m-%d')}. {hardware(device)}; load average {load:.2f} at the start. "
             f"{versions}. Frozen weights {str(preset.dtype).removeprefix('torch.')}. Ratios are of medians, in "
             "brackets the range of the turns.", ""]
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
    parser.add_argument("--layers", type=int, help="another depth of the language model")
    parser.add_argument("--out", type=Path, help="also write the results here")
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(given)
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    preset = PRESETS[options.preset]
    if options.layers:
        preset = replace(preset, layers=options.layers, width_layers=min(options.layers, preset.width_layers))
    load = os.getloadavg()[0]
    text = report(preset, run(preset, parts), " ".join(["python bench/train.py", *given]), load)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)


if __name__ == "__main__":
    main()
