"""The training loop, the same for all phases.

Every random draw is a function of (train.seed, phase, visit, record) or, for dropout, of (train.seed, phase, step):
a run that is stopped and started again continues as if nothing had happened.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from pacer.core.config import Params
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.core.progress import Ticker
from pacer.model.pacer import Pacer
from pacer.training.batches import MicroBatch, micro_batches
from pacer.training.examples import Examples
from pacer.training.objective import Alone, objective
from pacer.training.phases import Phase
from pacer.training.resume import load_state, save_state
from pacer.training.schedule import learning_rate_factor

Log = Callable[[dict[str, float], int], None]


def train(
    model: Pacer,
    examples: Examples,
    phase: Phase,
    params: Params,
    accelerator: Accelerator,
    scratch: Path,
    log: Log,
) -> dict[str, torch.Tensor]:
    """Train one phase and return its trainable weights (the last, or the best on validation).

    Args:
        model: with the phase's starting weights; only parameters that ``phase.trainable`` names are trained.
        scratch: directory of the resumable state. log: receives named values and the update they belong to; after
            a resume the earlier points are passed again, so it may start from nothing.

    Raises:
        ConfigError: more processes than records in a micro-batch. DataError: nothing to choose the best by.
        PacerError: a loss is not finite; the records of the batch are named.
    """
    if phase.batch_size < accelerator.num_processes:
        raise ConfigError(
            f"{phase.name}.batch_size = {phase.batch_size} is the global micro-batch and must be at least the number "
            f"of processes, {accelerator.num_processes}"
        )
    validation = sum(len(rows) for rows in examples.table.rows("val", phase.contexts).values())
    if params.train.checkpoint == "best" and not validation:
        raise DataError("train.checkpoint: best needs records in split val and there are none; use last")
    trainable = {n: p for n, p in model.named_parameters() if phase.trainable(n)}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trainable)
    model.to(accelerator.device)
    optimizer = torch.optim.AdamW(trainable.values(), lr=phase.learning_rate, weight_decay=params.train.weight_decay)
    run = _Run(model, examples, phase, params, accelerator)

    first, history = 0, []
    best: dict[str, Any] | None = None
    state = load_state(scratch)
    if state is not None:
        with torch.no_grad():
            for name, parameter in trainable.items():
                parameter.copy_(state["weights"][name])
        optimizer.load_state_dict(state["optimizer"])
        first, history, best = state["update"], state["history"], state["best"]
        for values, update in history:
            log(values, update)

    stream = run.micro_batches(start=first * phase.accumulation)
    with Ticker(phase.name, phase.updates, done=first) as ticker:
        for update in range(first, phase.updates):
            factor = learning_rate_factor(update, phase.updates, phase.warmup_updates)
            for group in optimizer.param_groups:
                group["lr"] = phase.learning_rate * factor
            started = time.perf_counter()
            values = run.update(update, [next(stream) for _ in range(phase.accumulation)], trainable, optimizer)
            done = update + 1
            values |= {"learning_rate": phase.learning_rate * factor,
                       "tokens_per_second": values.pop("tokens") / (time.perf_counter() - started)}
            validate = done % params.train.validation_interval == 0 or done == phase.updates
            if validate:
                losses = run.validate()
                values |= losses
                mean = losses.get("validation/mean", math.inf)
                if params.train.checkpoint == "best" and (best is None or mean < best["loss"]):
                    best = {"loss": mean, "weights": _copy(trainable)}
            if validate or done % params.train.log_interval == 0 or done == 1:
                history.append((values, done))
                log(values, done)
            ticker.advance(note=f"loss {values['loss']:.3f}")
            if done % params.train.state_interval == 0 and accelerator.is_main_process:
                save_state(scratch, {"weights": _copy(trainable), "optimizer": optimizer.state_dict(),
                                     "update": done, "history": history, "best": best})
    return best["weights"] if best is not None else _copy(trainable)


class _Run:
    """What stays the same from update to update."""

    def __init__(self, model: Pacer, examples: Examples, phase: Phase, params: Params, accelerator: Accelerator):
        self.model, self.examples, self.phase, self.params, self.accelerator = (
            model, examples, phase, params, accelerator)
        self.loss_weights: dict[str, Any] = {"warmup": phase.bare, "regularised": phase.regularised,
                             "lambda_tlw": params.train.lambda_tlw}
        if phase.regularised:
            self.loss_weights |= {"lambda_cons": params.calibrate.lambda_cons,
                                  "lambda_drift": params.calibrate.lambda_drift}

    def micro_batches(self, start: int):
        return micro_batches(
            self.examples.table.rows("train", self.phase.contexts), self.examples.table.lengths,
            batch_size=self.phase.batch_size, window=self.params.batches.window, mix=self.params.batches.mix,
            seed=self.params.train.seed, phase=self.phase.name, start=start,
        )

    def update(self, update: int, micros: list[MicroBatch], trainable: dict, optimizer: torch.optim.Optimizer) -> dict:
        """One optimiser step over accumulated micro-batches; returns the values to log."""
        self._train_mode()
        torch.manual_seed(_step_seed(self.params.train.seed, self.phase.name, update, self.accelerator.process_index))
        optimizer.zero_grad(set_to_none=True)
        rho = self.phase.rho(update)
        sums: dict[str, Any] = {"loss": 0.0, "tokens": 0.0}
        gates = torch.zeros(2, len(CONTEXTS), device=self.accelerator.device)  # sums and counts
        for micro in micros:
            rows, visits = self._own(micro.rows), self._own(micro.visits)
            commits = self.examples.routes(rows, visits, rho, self.params.train.seed, self.phase.name)
            batch = self.examples.batch(rows, commits, self.phase.lambda_q).to(self.accelerator.device)
            with self.accelerator.autocast():
                result = objective(self.model, batch, self.accelerator, **self.loss_weights)
            if not torch.isfinite(result.total):
                ids = [self.examples.table.row(int(row))["record_id"] for row in rows]
                raise PacerError(
                    f"{self.phase.name}: the loss of update {update} is {result.total.item()} on records "
                    f"{', '.join(ids)}; the last state stays, so lower {self.phase.name}.learning_rate or inspect these"
                )
            (result.total / len(micros)).backward()
            sums["loss"] += result.total.item() / len(micros)
            sums["tokens"] += int(batch.length.sum())
            for name, value in result.parts.items():
                sums[f"loss_{name}"] = sums.get(f"loss_{name}", 0.0) + value.item() / len(micros)
            if result.gate is not None:
                for row, gate in zip(rows, result.gate.detach(), strict=True):
                    column = int(self.examples.table.context[row])
                    gates[:, column] += torch.stack([gate, torch.ones_like(gate)])
        # what is logged is the whole micro-batch's, not this process's share
        totals = torch.tensor(list(sums.values()), dtype=torch.float64, device=self.accelerator.device)
        sums = dict(zip(sums, self.accelerator.reduce(totals, reduction="sum").tolist(), strict=True))
        gates = self.accelerator.reduce(gates, reduction="sum")
        weights = result.depth_weights
        self._sum_gradients(trainable)
        norm = torch.nn.utils.clip_grad_norm_(trainable.values(), self.params.train.max_grad_norm or math.inf)
        optimizer.step()
        sums |= {"rho": rho, "gradient_norm": norm.item()}
        if hasattr(self.model.router, "eta"):
            sums["alpha"] = self.model.router.scale.item()
            sums |= {f"depth_weight/{k}": w for k, w in enumerate(weights.tolist())}
        met = [(context, s / n) for context, s, n in zip(CONTEXTS, *gates.tolist(), strict=True) if n]
        return sums | {f"gate/{context}": mean for context, mean in met}

    def _train_mode(self) -> None:
        """Dropout where this phase trains; a frozen parent stays in eval mode."""
        self.model.eval()
        for name, module in self.model.named_children():
            if any(prefix.split(".")[0] == name for prefix in self.phase.trains):
                module.train()

    def _own(self, values: np.ndarray) -> np.ndarray:
        """This process's part of a global micro-batch."""
        return values[self.accelerator.process_index :: self.accelerator.num_processes]

    def _sum_gradients(self, trainable: dict[str, torch.nn.Parameter]) -> None:
        """Sum gradients over processes, in one all-reduce."""
        for parameter in trainable.values():
            if parameter.grad is None:  # no row of this process had the source: it adds nothing
                parameter.grad = torch.zeros_like(parameter)
        if self.accelerator.num_processes == 1:
            return
        flat = torch.cat([p.grad.flatten() for p in trainable.values() if p.grad is not None])
        flat = self.accelerator.reduce(flat, reduction="sum")
        position = 0
        for parameter in trainable.values():
            if parameter.grad is not None:
                parameter.grad.copy_(flat[position : position + parameter.numel()].view_as(parameter))
            position += parameter.numel()

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Mean validation loss per context and their mean; commitment first unless the phase is direct."""
        self.model.eval()
        losses: dict[str, float] = {}
        for context, rows in self.examples.table.rows("val", self.phase.contexts).items():
            rows = rows[: self.params.train.validation_records]
            total = count = 0.0
            for start in range(0, len(rows), self.phase.batch_size):
                own = rows[start : start + self.phase.batch_size]
                commit = self.phase.rho(self.phase.updates) < 1.0
                batch = self.examples.batch(own, [commit] * len(own), self.phase.lambda_q)
                with self.accelerator.autocast():
                    weights = self.loss_weights | {"regularised": False}
                    loss = objective(self.model, batch.to(self.accelerator.device), Alone(), **weights).total
                total, count = total + loss.item() * len(own), count + len(own)
            if count:
                losses[f"validation/{context}"] = total / count
        if losses:
            losses["validation/mean"] = float(np.mean(list(losses.values())))
        return losses


def _copy(trainable: dict[str, torch.nn.Parameter]) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().cpu().clone() for name, parameter in trainable.items()}


def _step_seed(seed: int, phase: str, update: int, rank: int) -> int:
    digest = hashlib.blake2b(f"{seed}|{phase}|{update}|{rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 2**63
