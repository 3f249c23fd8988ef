"""The training loop, the same for all phases.

Every random draw is a function of (train.seed, phase, visit, record) or, for dropout, of
(train.seed, phase, step, process). So a run that is stopped and resumed gives the same result as an
uninterrupted one.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor

from pacer.core.contexts import CONTEXTS, context_of
from pacer.core.devices import sent
from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.core.io import atomic_path
from pacer.core.machine import peak_memory
from pacer.core.processes import prefetch
from pacer.core.progress import Ticker
from pacer.core.stops import request_stop, saved_when_stopped, stop_requested, uninterrupted
from pacer.model.batch import TrainingBatch
from pacer.model.pacer import Pacer
from pacer.training.examples import Examples, MicroBatch
from pacer.training.losses import divisors_of
from pacer.training.optimizer import BlockOptimizer
from pacer.training.phases import Phase
from pacer.training.sampler import Sampler
from pacer.training.validation import validate

#: Receives named values and the number of their update.
Log = Callable[[dict[str, float], int], None]
#: Row numbers of a process's part of a micro-batch, and the part as a batch on the CPU.
Part = tuple[np.ndarray, TrainingBatch]
STATE = "state.pt"


def train(
    model: Pacer,
    examples: Examples,
    phase: Phase,
    accelerator: Accelerator,
    scratch: Path,
    log: Log,
) -> dict[str, Tensor]:
    """Train one phase and return its trained weights (the last, or the best on validation).

    Args:
        model: with the phase's starting weights; only parameters that ``phase.trainable`` accepts
            are trained.
        scratch: directory of the resumable state. log: a resumed run passes the earlier points
            again, so it may start empty.

    Raises:
        ConfigError: more processes than records in a micro-batch.
        DataError: no records to train on, or to choose the best weights by.
        PacerError: a loss or gradient is not finite; the message names the records of the batch.
    """
    run = _Run(model, examples, phase, accelerator)
    run.resume(scratch)
    for point in run.history:
        log(*point)
    settings = phase.train
    main = accelerator.is_main_process
    stream = run.stream(run.done)
    with (
        saved_when_stopped(lambda: main and run.save(scratch)),
        Ticker(phase.name, phase.schedule.updates, done=run.done, shown=main) as ticker,
    ):
        run.observe(log)  # a stop may have come between an update and its validation
        while run.done < phase.schedule.updates:
            with run.uninterrupted():
                run.update(stream)
            run.observe(log)
            ticker.advance(note=f"loss {run.history[-1][0]['loss']:.3f}")
            if main and (
                run.done == phase.schedule.updates or run.done % settings.state_interval == 0
            ):
                run.save(scratch)
    return run.trained if run.best is None else run.best["weights"]


@dataclass
class Means:
    """Values to log by name, each a sum and a count [2], which are added up over micro-batches,
    processes and updates.

    A micro-batch has one context, so an update lacks the values of the others; they are averaged
    over other updates.
    """

    pairs: dict[str, Tensor] = field(default_factory=dict)

    def add(self, pairs: Mapping[str, Tensor]) -> None:
        """Add sums and counts."""
        for name, pair in pairs.items():
            self.pairs[name] = self.pairs[name] + pair if name in self.pairs else pair

    def values(self) -> dict[str, float]:
        """Return the means, without those of nothing."""
        pairs = zip(self.pairs, torch.stack(list(self.pairs.values())).tolist(), strict=True)
        return {name: total / count for name, (total, count) in pairs if count}


class _Run:
    """A phase in training: the model, its optimiser, and the state to resume from.

    Attributes:
        done: updates so far. history: logged points. best: loss and weights of the best validation.
        means: of the updates since the last logged point.
        unchecked: number of each update since the last check, rows of its micro-batches and, on the
            device, its loss, the norm of its gradient, and the losses of this process's parts of
            the micro-batches.
        present: contexts of the latest update's records, of all processes.
        contexts: those of the train records. seen: those of which a record was trained on since the
            start or resume.
        stopping: whether all processes stop after this update.
    """

    def __init__(self, model: Pacer, examples: Examples, phase: Phase, accelerator: Accelerator):
        if phase.schedule.batch_size < accelerator.num_processes:
            raise ConfigError(
                f"{phase.name}.batch_size ({phase.schedule.batch_size} across all processes) must "
                f"be at least the number of processes ({accelerator.num_processes})"
            )
        if phase.train.checkpoint == "best" and not any(
            map(len, examples.table.rows("val", phase.contexts).values())
        ):
            raise DataError(
                "no val records for train.checkpoint = 'best'; set train.checkpoint: last"
            )
        self.model = model
        self.examples = examples
        self.phase = phase
        self.accelerator = accelerator
        self.sampler = Sampler(phase, examples)
        self.parameters = {n: p for n, p in model.named_parameters() if phase.trainable(n)}
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in self.parameters)
        model.to(accelerator.device)
        self.optimizer = BlockOptimizer(model, self.parameters, phase)
        self.done = 0
        self.stopping = False
        self.means = Means()
        self.unchecked: list[tuple[int, list[np.ndarray], Tensor]] = []
        self.history: list[tuple[dict[str, float], int]] = []
        self.best: dict[str, Any] | None = None
        self.contexts = set(examples.table.frame.filter(split="train")["context"]).intersection(
            phase.contexts
        )
        self.present: set[str] = set()
        self.seen: set[str] = set()

    @property
    def trained(self) -> dict[str, Tensor]:
        """A copy of the trained weights, on the CPU."""
        return {
            name: parameter.detach().cpu().clone() for name, parameter in self.parameters.items()
        }

    def resume(self, scratch: Path) -> None:
        """Load the state that a stopped run left in ``scratch``, if there is one."""
        if not (scratch / STATE).exists():
            return
        state = torch.load(scratch / STATE, map_location="cpu", weights_only=True)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(state["weights"][name])
        self.optimizer.adamw.load_state_dict(state["optimizer"])
        self.done = state["update"]
        self.history = state["history"]
        self.best = state["best"]
        self.means = Means(
            {name: pair.to(self.accelerator.device) for name, pair in state["means"].items()}
        )

    def save(self, scratch: Path) -> None:
        """Write the current state to ``scratch``, replacing the old one. Raises a PacerError as
        :meth:`check` does."""
        self.check()
        state = {
            "weights": self.trained,
            "optimizer": self.optimizer.adamw.state_dict(),
            "update": self.done,
            "history": self.history,
            "means": self.means.pairs,
            "best": self.best,
        }
        with atomic_path(scratch / STATE, durable=True) as temporary:
            torch.save(state, temporary)

    def stream(self, first: int) -> Iterator[Part]:
        """Yield this process's shares of the micro-batches from update ``first`` to the last."""
        rank = self.accelerator.process_index
        ranks = self.accelerator.num_processes

        def make(micro: MicroBatch) -> Part:
            batch = self.examples.training_batch(micro, self.phase.losses.lambda_q)
            return micro.rows, batch.ready_for(self.accelerator.device)

        left = (self.phase.schedule.updates - first) * self.phase.schedule.accumulation
        shares = (
            MicroBatch(micro.rows[rank::ranks], micro.commits[rank::ranks])
            for micro in islice(self.sampler.from_update(first), left)
        )
        return prefetch(make, shares, self.phase.train.workers)

    def update(self, stream: Iterator[Part]) -> None:
        """Take one optimiser step on the next micro-batches, and add its values to the means."""
        started = time.perf_counter()
        micros = [next(stream) for _ in range(self.phase.schedule.accumulation)]
        waited = time.perf_counter() - started
        tokens = self.gradient(micros)
        self.optimizer.step(self.phase.learning_rate(self.done), self.present)
        self._check_gradients()
        self.done += 1
        if self._logs:
            self.check()
        elapsed = time.perf_counter() - started
        spent = sent(
            torch.tensor([[tokens, elapsed], [waited, elapsed]], dtype=torch.float64),
            self.accelerator.device,
        )
        self.means.add({"tokens_per_second": spent[0], "loader_wait": spent[1]})

    def gradient(self, micros: list[Part]) -> float:
        """Store the accumulated gradient of the micro-batches in the parameters, and add the values
        to log to the means; return the number of tokens.

        Several processes communicate twice: for the denominators of the losses, and for gradients
        and logged values together. They wait for that, to agree on a stop; one process does not
        wait for its GPU.
        """
        means, totals = self._backward(micros)
        sums, tokens = self._sum_over_processes(
            torch.cat(list(means.pairs.values())), [batch for _, batch in micros]
        )
        pairs = dict(zip(means.pairs, sums.double().split(2), strict=True))
        parameters = self.parameters.values()
        limit = self.phase.train.max_grad_norm
        norm = torch.nn.utils.get_total_norm(
            [each.grad for each in parameters if each.grad is not None]
        )
        if limit is not None:
            torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm)
        self.means.add(
            pairs | {"gradient_norm": torch.stack([norm, torch.ones_like(norm)]).double()}
        )
        loss, count = pairs["loss"]
        self.unchecked.append(
            (self.done, [rows for rows, _ in micros], torch.stack([loss / count, norm, *totals]))
        )
        if self.accelerator.num_processes > 1:
            self.check()
        return tokens

    def check(self) -> None:
        """Wait for the updates since the last check. What is saved, validated or logged later has
        only finite weights. Raises a PacerError if a loss or gradient is not finite; the message
        names the records of the micro-batches with such a loss, or all of the update, if only the
        gradient is."""
        unchecked = self.unchecked
        self.unchecked = []
        values = torch.stack([numbers for *_, numbers in unchecked]).tolist() if unchecked else []
        for (update, micros, _), (loss, norm, *totals) in zip(unchecked, values, strict=True):
            what, value = ("gradient norm", norm) if math.isfinite(loss) else ("loss", loss)
            if math.isfinite(value):
                continue
            bad = micros
            if what == "loss":
                bad = [
                    rows
                    for rows, total in zip(micros, totals, strict=True)
                    if not math.isfinite(total)
                ]
            ids = gather_object(
                [self.examples.table.record_id(int(row)) for rows in bad for row in rows]
            )
            raise PacerError(
                f"{self.phase.name}: the {what} at update {update} is {value} on records "
                f"{', '.join(ids)}; the last saved state is kept. Lower "
                f"{self.phase.name}.learning_rate, or inspect these records"
            )

    def _backward(self, micros: list[Part]) -> tuple[Means, list[Tensor]]:
        """Accumulate this process's gradient of the micro-batches; return its values to log, and
        the losses' shares, on the device."""
        train = self.phase.train
        device = self.accelerator.device
        self.model.eval()  # a frozen parent stays in this mode; only what is trained has dropout
        for name, module in self.model.named_children():
            module.train(any(prefix.split(".")[0] == name for prefix in self.phase.trains))
        seed = f"{train.seed}|{self.phase.name}|{self.done}|{self.accelerator.process_index}"
        torch.manual_seed(
            int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "big") % 2**63
        )
        divisors = sent(
            torch.stack([torch.stack(divisors_of(batch)) for _, batch in micros]), device
        )
        divisors = self.accelerator.reduce(divisors, reduction="sum")
        for holder in (self.model, self.optimizer.adamw):  # both name the same tensors
            holder.zero_grad()
        means = Means()
        totals = []
        # a loss is the sum of the processes' shares, so one process counts it
        count = torch.full((), float(self.accelerator.is_main_process), device=device)
        for (_, batch), of_batch in zip(micros, divisors, strict=True):
            batch = batch.to(device)
            named = {"frontal_only": self.phase.frontal_only, "divisors": tuple(of_batch)}
            result = self.phase.objective(self.model, batch, self.phase.losses, **named)
            (result.total / len(micros)).backward()
            totals.append(result.total.detach())
            shares = {
                "loss": totals[-1],
                **{f"loss_{name}": part for name, part in result.parts.items()},
            }
            means.add({name: torch.stack([share.float(), count]) for name, share in shares.items()})
            means.add({name: pair.float() for name, pair in result.means.items()})
        return means, totals

    def _sum_over_processes(
        self, sums: Tensor, batches: list[TrainingBatch]
    ) -> tuple[Tensor, float]:
        """Add up the gradients, the numbers ``sums`` [n] and the tokens over processes; return the
        sums and the tokens. ``present`` becomes that of all processes. If one is asked to stop, all
        stop after this update."""
        parameters = list(self.parameters.values())
        present = {context_of(*row) for batch in batches for row in batch.availability.tolist()}
        tokens = sum(int(batch.length.sum()) for batch in batches)
        counts: list[float] = [stop_requested(), tokens, *(name in present for name in CONTEXTS)]
        if self.accelerator.num_processes > 1:
            flags = [*counts, *(parameter.grad is not None for parameter in parameters)]
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            vectors = [*(gradient.flatten() for gradient in gradients)]
            vectors += [sent(torch.tensor(flags, dtype=sums.dtype), sums.device), sums]
            joined = self.accelerator.reduce(torch.cat(vectors), reduction="sum")
            *summed, flags, sums = joined.split([len(vector) for vector in vectors])
            counts, with_gradient = flags[: len(counts)].tolist(), flags[len(counts) :].tolist()
            for parameter, gradient, processes in zip(
                parameters, summed, with_gradient, strict=True
            ):
                parameter.grad = gradient.view_as(parameter) if processes else None
        asked_to_stop, tokens, *contexts = counts
        self.present = {
            name for name, processes in zip(CONTEXTS, contexts, strict=True) if processes
        }
        self._agree_to_stop(asked_to_stop)
        return sums, tokens

    def uninterrupted(self) -> AbstractContextManager[None]:
        """Postpone a stop to the end of a block, of several processes to one after which all
        stop."""
        return uninterrupted(agreed=lambda: self.stopping or self.accelerator.num_processes == 1)

    def _agree_to_stop(self, asked: float) -> None:
        """Stop this process if any of them was asked to: one that waits for another could not save
        the state."""
        if asked:
            self.stopping = True
            request_stop()

    @property
    def _validates(self) -> bool:
        """Whether validation follows the latest update."""
        return (
            self.done == self.phase.schedule.updates
            or self.done % self.phase.train.validation_interval == 0
        )

    @property
    def _logs(self) -> bool:
        """Whether a logged point follows the latest update."""
        return self._validates or self.done % self.phase.train.log_interval == 0 or self.done == 1

    def observe(self, log: Log) -> None:
        """Validate and log after the latest update, if that is due and not yet done. The best
        weights are kept if ``train.checkpoint`` is ``best``."""
        if not self.done or (self.history and self.history[-1][1] == self.done):
            return
        losses: dict[str, float] = {}
        if self._validates:
            asked = torch.tensor(float(stop_requested()), device=self.accelerator.device)
            with self.uninterrupted():
                self._agree_to_stop(self.accelerator.reduce(asked, reduction="sum").item())
            losses = validate(self.model, self.examples, self.phase, self.accelerator)
            mean = losses.get("validation/mean", math.inf)
            if self.phase.train.checkpoint == "best" and (
                self.best is None or mean < self.best["loss"]
            ):
                self.best = {"loss": mean, "weights": self.trained}
        if self._logs:
            with self.uninterrupted():
                self.history.append((self.point() | losses, self.done))
                log(*self.history[-1])

    def point(self) -> dict[str, float]:
        """Return the values to log: means since the last point, and current values of the latest
        update."""
        update = self.done - 1
        device = self.accelerator.device
        now = {"learning_rate": self.phase.learning_rate(update), "rho": self.phase.rho(update)}
        now["memory_gb"] = (
            torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_memory()
        ) / 1e9
        if hasattr(self.model.router, "eta"):
            now["alpha"] = self.model.router.scale.item()
        means = self.means
        self.means = Means()
        return means.values() | now

    def _check_gradients(self) -> None:
        """Check, at the first step after which every context of the phase had a record, that
        training reaches all. Raises a PacerError if a parameter that these contexts use has had no
        gradient."""
        if self.seen >= self.contexts:
            return
        self.seen |= self.present
        if self.seen >= self.contexts and (
            unreached := self.optimizer.never_stepped(self.contexts)
        ):
            raise PacerError(
                f"{self.phase.name}: {len(unreached)} of {len(self.parameters)} trainable tensors "
                f"got no gradient, e.g. {unreached[0]}, so training would not change them; for "
                "LoRA, choose different lora.targets"
            )
