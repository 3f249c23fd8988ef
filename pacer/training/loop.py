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

from pacer.core.errors import DataError, PacerError
from pacer.core.io import atomic_path
from pacer.core.prefetch import prefetch
from pacer.core.progress import Ticker
from pacer.model.pacer import Batch, Pacer
from pacer.training.batches import MicroBatch
from pacer.training.examples import Examples
from pacer.training.gradients import Gradients
from pacer.training.objective import Objective, denominators, objective
from pacer.training.phases import Phase
from pacer.training.plan import Plan
from pacer.training.tally import Means, Tally
from pacer.training.validation import validate

#: Receives named values and the update that they belong to.
Log = Callable[[dict[str, float], int], None]
#: The loss of a micro-batch, called as :func:`pacer.training.objective.objective`.
Loss = Callable[..., Objective]
STATE = "state.pt"


def train(
    model: Pacer,
    examples: Examples,
    phase: Phase,
    accelerator: Accelerator,
    scratch: Path,
    log: Log,
    loss: Loss = objective,
) -> dict[str, Tensor]:
    """Train one phase and return its trainable weights (the last, or the best on validation).

    Args:
        model: with the phase's starting weights; only parameters that ``phase.trainable`` names are trained.
        scratch: directory of the resumable state. log: after a resume the earlier points are passed again, so it may
            start from nothing. loss: what is minimised.

    Raises:
        ConfigError: more processes than records in a micro-batch. DataError: nothing to choose the best by.
        PacerError: a loss is not finite; the records of the batch are named.
    """
    run = _Run(model, examples, phase, accelerator, loss)
    run.resume(scratch)
    for point in run.history:
        log(*point)
    settings, main = phase.train, accelerator.is_main_process
    stream = run.stream(run.done)
    with Ticker(phase.name, phase.schedule.updates, done=run.done, shown=main) as ticker:
        while run.done < phase.schedule.updates:
            values = run.update(stream)
            last = run.done == phase.schedule.updates
            losses = run.validate() if last or run.done % settings.validation_interval == 0 else None
            if losses is not None or run.done % settings.log_interval == 0 or run.done == 1:
                run.history.append((run.point() | (losses or {}), run.done))
                log(*run.history[-1])
            ticker.advance(note=f"loss {values['loss']:.3f}")
            if main and (last or run.done % settings.state_interval == 0):
                run.save(scratch)
    return run.trained if run.best is None else run.best["weights"]


class _Micro(NamedTuple):
    """This process's part of a micro-batch, on the CPU, and the rows it holds."""

    rows: np.ndarray
    batch: Batch


class _Run:
    """A phase in training: the model, its optimiser, and what a resumed run continues from.

    Attributes:
        done: updates so far. history: points that were logged. best: loss and weights of the best validation.
    """

    def __init__(self, model: Pacer, examples: Examples, phase: Phase, accelerator: Accelerator, loss: Loss):
        _check(examples, phase, accelerator)
        self.model, self.examples, self.phase, self.accelerator, self.loss = model, examples, phase, accelerator, loss
        self.parameters = {n: p for n, p in model.named_parameters() if phase.trainable(n)}
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in self.parameters)
        model.to(accelerator.device)
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=phase.schedule.learning_rate, weight_decay=phase.train.weight_decay
        )
        self.gradients = Gradients(list(self.parameters.values()))
        self.done, self.means = 0, Means()
        self.history: list[tuple[dict[str, float], int]] = []
        self.best: dict[str, Any] | None = None

    @property
    def trained(self) -> dict[str, Tensor]:
        """A copy of the trained weights on the CPU."""
        return {name: parameter.detach().cpu().clone() for name, parameter in self.parameters.items()}

    def resume(self, scratch: Path) -> None:
        """Continue where a stopped run left its state, if one did."""
        if not (scratch / STATE).exists():
            return
        state = torch.load(scratch / STATE, map_location="cpu", weights_only=True)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.done, self.history, self.best = state["update"], state["history"], state["best"]
        self.means = Means(state["means"])

    def save(self, scratch: Path) -> None:
        """Replace the state in ``scratch``."""
        state = {
            "weights": self.trained,
            "optimizer": self.optimizer.state_dict(),
            "update": self.done,
            "history": self.history,
            "means": self.means.sums,
            "best": self.best,
        }
        with atomic_path(scratch / STATE, durable=True) as temporary:
            torch.save(state, temporary)

    def stream(self, first: int) -> Iterator[_Micro]:
        """This process's parts of the micro-batches from update ``first`` to the last."""
        plan = Plan(self.phase, self.examples)
        rank, ranks = self.accelerator.process_index, self.accelerator.num_processes

        def make(item: tuple[MicroBatch, float]) -> _Micro:
            micro, rho = item
            batch = self.examples.drawn(micro, rho, plan.draws, self.phase.losses.lambda_q)
            return _Micro(micro.rows, batch.pin_memory() if self.accelerator.device.type == "cuda" else batch)

        left = (self.phase.schedule.updates - first) * self.phase.schedule.accumulation
        parts = (
            (MicroBatch(micro.rows[rank::ranks], micro.visits[rank::ranks]), rho)
            for micro, rho in islice(plan.from_update(first), left)
        )
        return prefetch(make, parts, self.phase.train.workers)

    def update(self, stream: Iterator[_Micro]) -> dict[str, float]:
        """One optimiser step on the next micro-batches; returns its values, which are also added to the means."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.phase.learning_rate(self.done)
        started = time.perf_counter()
        micros = [next(stream) for _ in range(self.phase.schedule.accumulation)]
        waited = time.perf_counter() - started
        values = self.gradient(micros)
        self.optimizer.step()
        elapsed = time.perf_counter() - started
        speed = {"tokens_per_second": values.pop("tokens") / elapsed, "loader_wait": waited / elapsed}
        self.means.add(values | speed)
        self.done += 1
        return values

    def gradient(self, micros: list[_Micro]) -> dict[str, float]:
        """Leave the gradient of accumulated micro-batches with the parameters; returns the values to log.

        All processes meet twice: for the denominators of the losses, and for gradients and logged values at once.
        """
        train, device = self.phase.train, self.accelerator.device
        self._train_mode()
        torch.manual_seed(_step_seed(train.seed, self.phase.name, self.done, self.accelerator.process_index))
        whole = torch.stack([denominators(micro.batch) for micro in micros]).to(device)
        whole = self.accelerator.reduce(whole, reduction="sum")
        self.gradients.clear()
        tally, totals = Tally(len(micros)), []
        for micro, own in zip(micros, whole, strict=True):
            batch = micro.batch.to(device)
            result = self.loss(self.model, batch, self.phase.losses, bare=self.phase.bare, whole=own)
            (result.total / len(micros)).backward()
            totals.append(result.total.detach())
            tally.add(result, batch)
        values = tally.values(self.gradients.sum_over_processes(tally.sums, self.accelerator))
        norm = self.gradients.norm()
        if not (math.isfinite(values["loss"]) and math.isfinite(norm)):
            self._stop(micros, totals, values["loss"], norm)
        self.gradients.clip(norm, train.max_grad_norm)
        return values | {"gradient_norm": norm}

    def validate(self) -> dict[str, float]:
        """The validation losses; remembers the best weights where ``train.checkpoint`` asks for them."""
        losses = validate(self.model, self.examples, self.phase, self.accelerator)
        mean = losses.get("validation/mean", math.inf)
        if losses and not math.isfinite(mean):
            raise PacerError(
                f"{self.phase.name}: validation after update {self.done} gave {losses}; lower "
                f"{self.phase.name}.learning_rate, or look for values that are not finite in the feature store"
            )
        if self.phase.train.checkpoint == "best" and (self.best is None or mean < self.best["loss"]):
            self.best = {"loss": mean, "weights": self.trained}
        return losses

    def point(self) -> dict[str, float]:
        """What is logged after the newest update: means since the last point, and values as they were in it."""
        update, device = self.done - 1, self.accelerator.device
        now = {"learning_rate": self.phase.learning_rate(update), "rho": self.phase.rho(update)}
        now["memory_gb"] = _memory(device) / 1e9
        if hasattr(self.model.router, "eta"):
            now["alpha"] = self.model.router.scale.item()
        return self.means.take() | now

    def _stop(self, micros: list[_Micro], totals: list[Tensor], loss: float, norm: float) -> None:
        """Name the records of the micro-batches whose loss is not finite (of all, when only the gradient is not)."""
        bad = [micro for micro, total in zip(micros, totals, strict=True) if not torch.isfinite(total)]
        bad = bad or (micros if math.isfinite(loss) else [])
        ids = gather_object([self.examples.table.record_id(int(row)) for micro in bad for row in micro.rows])
        what, value = ("gradient norm", norm) if math.isfinite(loss) else ("loss", loss)
        raise PacerError(
            f"{self.phase.name}: the {what} of update {self.done} is {value} on records {', '.join(ids)}; the last "
            f"state stays, so lower {self.phase.name}.learning_rate or inspect these"
        )

    def _train_mode(self) -> None:
        """Dropout where this phase trains; a frozen parent stays in eval mode."""
        self.model.eval()
        for name, module in self.model.named_children():
            if any(prefix.split(".")[0] == name for prefix in self.phase.trains):
                module.train()


def _check(examples: Examples, phase: Phase, accelerator: Accelerator) -> None:
    phase.check_processes(accelerator.num_processes)
    validation = sum(len(rows) for rows in examples.table.rows("val", phase.contexts).values())
    if phase.train.checkpoint == "best" and not validation:
        raise DataError("train.checkpoint: best needs records in split val and there are none; use last")


def _memory(device: torch.device) -> int:
    """Bytes that this process has held at most: of the GPU's memory, or of the machine's."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _step_seed(seed: int, phase: str, update: int, rank: int) -> int:
    digest = hashlib.blake2b(f"{seed}|{phase}|{update}|{rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 2**63
