"""The training loop, the same for all phases.

Every random draw is a function of (train.seed, phase, visit, record) or, for dropout, of (train.seed, phase, step):
a run that is stopped and started again continues as if nothing had happened.
"""

from __future__ import annotations

import hashlib
import math
import resource
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor

from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.core.progress import Ticker
from pacer.model.pacer import Batch, Pacer
from pacer.parallel.prefetch import prefetch
from pacer.params import Params
from pacer.training.batches import MicroBatch
from pacer.training.examples import Examples
from pacer.training.gradients import Gradients
from pacer.training.objective import Objective, denominators, objective
from pacer.training.phases import Phase
from pacer.training.plan import plan_of
from pacer.training.resume import load_state, save_state
from pacer.training.schedule import learning_rate_factor
from pacer.training.tally import Means, Tally
from pacer.training.validation import validate

Log = Callable[[dict[str, float], int], None]

#: The loss of a micro-batch, called as :func:`pacer.training.objective.objective`.
Loss = Callable[..., Objective]


def train(
    model: Pacer,
    examples: Examples,
    phase: Phase,
    params: Params,
    accelerator: Accelerator,
    scratch: Path,
    log: Log,
    loss: Loss = objective,
) -> dict[str, Tensor]:
    """Train one phase and return its trainable weights (the last, or the best on validation).

    Args:
        model: with the phase's starting weights; only parameters that ``phase.trainable`` names are trained.
        scratch: directory of the resumable state. log: receives named values and the update they belong to; after
            a resume the earlier points are passed again, so it may start from nothing.
        loss: what is minimised.

    Raises:
        ConfigError: more processes than records in a micro-batch. DataError: nothing to choose the best by.
        PacerError: a loss is not finite; the records of the batch are named.
    """
    _check(phase, params, examples, accelerator)
    trainable = {n: p for n, p in model.named_parameters() if phase.trainable(n)}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trainable)
    model.to(accelerator.device)
    optimizer = torch.optim.AdamW(trainable.values(), lr=phase.learning_rate, weight_decay=params.train.weight_decay)
    gradients = Gradients(list(trainable.values()))
    run = _Run(model, examples, phase, params, accelerator, loss)

    first, history, means = 0, [], Means()
    best: dict[str, Any] | None = None
    state = load_state(scratch)
    if state is not None:
        with torch.no_grad():
            for name, parameter in trainable.items():
                parameter.copy_(state["weights"][name])
        optimizer.load_state_dict(state["optimizer"])
        first, history, best = state["update"], state["history"], state["best"]
        means = Means(state.get("means"))  # a state of an earlier version has none
        for values, update in history:
            log(values, update)

    main = accelerator.is_main_process
    stream = run.stream(first)
    with Ticker(phase.name, phase.updates, done=first, shown=main) as ticker:
        for update in range(first, phase.updates):
            rate = phase.learning_rate * learning_rate_factor(update, phase.updates, phase.warmup_updates)
            for group in optimizer.param_groups:
                group["lr"] = rate
            started = time.perf_counter()
            micros = [next(stream) for _ in range(phase.accumulation)]
            waited = time.perf_counter() - started
            values = run.gradient(update, micros, gradients)
            optimizer.step()
            elapsed = time.perf_counter() - started
            done = update + 1
            tokens = values.pop("tokens")
            means.add(values | {"tokens_per_second": tokens / elapsed, "loader_wait": waited / elapsed})
            losses: dict[str, float] = {}
            validated = done % params.train.validation_interval == 0 or done == phase.updates
            if validated:
                losses = validate(model, examples, phase, params, accelerator)
                mean = losses.get("validation/mean", math.inf)
                if losses and not math.isfinite(mean):
                    raise PacerError(
                        f"{phase.name}: validation after update {done} gave {losses}; look for states "
                        "that are not numbers in the feature store, or lower the learning rate"
                    )
                if params.train.checkpoint == "best" and (best is None or mean < best["loss"]):
                    best = {"loss": mean, "weights": _copy(trainable)}
            if validated or done % params.train.log_interval == 0 or done == 1:
                now = {"learning_rate": rate, "rho": phase.rho(update), "memory_gb": _memory(accelerator.device) / 1e9}
                if hasattr(model.router, "eta"):
                    now["alpha"] = model.router.scale.item()
                history.append((means.take() | now | losses, done))
                log(*history[-1])
            ticker.advance(note=f"loss {values['loss']:.3f}")
            if main and (done % params.train.state_interval == 0 or done == phase.updates):
                save_state(
                    scratch,
                    {
                        "weights": _copy(trainable),
                        "optimizer": optimizer.state_dict(),
                        "update": done,
                        "history": history,
                        "means": means.sums,
                        "best": best,
                    },
                )
    return best["weights"] if best is not None else _copy(trainable)


def _check(phase: Phase, params: Params, examples: Examples, accelerator: Accelerator) -> None:
    if phase.batch_size < accelerator.num_processes:
        raise ConfigError(
            f"{phase.name}.batch_size = {phase.batch_size} is the global micro-batch and must be at least the number "
            f"of processes, {accelerator.num_processes}"
        )
    validation = sum(len(rows) for rows in examples.table.rows("val", phase.contexts).values())
    if params.train.checkpoint == "best" and not validation:
        raise DataError("train.checkpoint: best needs records in split val and there are none; use last")


class _Micro(NamedTuple):
    """This process's part of a micro-batch, on the CPU, and the rows it holds."""

    rows: np.ndarray
    batch: Batch


class _Run:
    """What stays the same from update to update."""

    def __init__(
        self, model: Pacer, examples: Examples, phase: Phase, params: Params, accelerator: Accelerator, loss: Loss
    ):
        self.model, self.examples, self.phase, self.params, self.accelerator, self.loss = (
            model,
            examples,
            phase,
            params,
            accelerator,
            loss,
        )
        self.loss_weights: dict[str, Any] = {
            "warmup": phase.bare,
            "regularised": phase.regularised,
            "lambda_tlw": params.train.lambda_tlw,
        }
        if phase.regularised:
            self.loss_weights |= {
                "lambda_cons": params.calibrate.lambda_cons,
                "lambda_drift": params.calibrate.lambda_drift,
            }

    def stream(self, first: int) -> Iterator[_Micro]:
        """This process's parts of the micro-batches from update ``first`` to the last."""
        plan = plan_of(self.phase, self.params, self.examples)
        rank, ranks = self.accelerator.process_index, self.accelerator.num_processes

        def make(item: tuple[MicroBatch, float]) -> _Micro:
            micro, rho = item
            batch = self.examples.drawn(micro, rho, plan.draws, self.phase.lambda_q)
            return _Micro(micro.rows, batch.pin_memory() if self.accelerator.device.type == "cuda" else batch)

        left = (self.phase.updates - first) * self.phase.accumulation
        parts = (
            (MicroBatch(micro.rows[rank::ranks], micro.visits[rank::ranks]), rho)
            for micro, rho in islice(plan.from_update(first), left)
        )
        return prefetch(make, parts, self.params.train.workers)

    def gradient(self, update: int, micros: list[_Micro], gradients: Gradients) -> dict[str, float]:
        """Leave the gradient of accumulated micro-batches in ``gradients``; returns the values to log.

        All processes meet twice: for the denominators of the losses, and for gradients and logged values at once.
        """
        self._train_mode()
        torch.manual_seed(_step_seed(self.params.train.seed, self.phase.name, update, self.accelerator.process_index))
        everybody = torch.stack([denominators(micro.batch) for micro in micros]).to(self.accelerator.device)
        everybody = self.accelerator.reduce(everybody, reduction="sum")
        gradients.clear()
        tally, totals = Tally(len(micros)), []
        for micro, whole in zip(micros, everybody, strict=True):
            batch = micro.batch.to(self.accelerator.device)
            with self.accelerator.autocast():
                result = self.loss(self.model, batch, everybody=whole, **self.loss_weights)
            (result.total / len(micros)).backward()
            totals.append(result.total.detach())
            tally.add(result, batch, self.examples.table.context[micro.rows])
        values = tally.values(gradients.sum_over_processes(tally.sums, self.accelerator))
        norm = gradients.norm()
        if not (math.isfinite(values["loss"]) and math.isfinite(norm)):
            self._stop(update, micros, totals, values["loss"], norm)
        gradients.clip(norm, self.params.train.max_grad_norm)
        return values | {"gradient_norm": norm}

    def _stop(self, update: int, micros: list[_Micro], totals: list[Tensor], loss: float, norm: float) -> None:
        """Name the records of the micro-batches whose loss is not finite (of all, when only the gradient is not)."""
        bad = [micro for micro, total in zip(micros, totals, strict=True) if not torch.isfinite(total)]
        bad = bad or (micros if math.isfinite(loss) else [])
        ids = gather_object([self.examples.table.record_id(int(row)) for micro in bad for row in micro.rows])
        what = (
            f"loss of update {update} is {loss}"
            if not math.isfinite(loss)
            else f"gradient norm of update {update} is {norm}"
        )
        raise PacerError(
            f"{self.phase.name}: the {what} on records {', '.join(ids)}; the last state stays, so lower "
            f"{self.phase.name}.learning_rate or inspect these"
        )

    def _train_mode(self) -> None:
        """Dropout where this phase trains; a frozen parent stays in eval mode."""
        self.model.eval()
        for name, module in self.model.named_children():
            if any(prefix.split(".")[0] == name for prefix in self.phase.trains):
                module.train()


def _copy(trainable: dict[str, torch.nn.Parameter]) -> dict[str, Tensor]:
    return {name: parameter.detach().cpu().clone() for name, parameter in trainable.items()}


def _memory(device: torch.device) -> int:
    """Bytes that this process has held at most: of the GPU's memory, or of the machine's."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _step_seed(seed: int, phase: str, update: int, rank: int) -> int:
    digest = hashlib.blake2b(f"{seed}|{phase}|{update}|{rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 2**63
