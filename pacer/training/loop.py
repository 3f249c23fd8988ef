"""The training loop, the same for all phases.

Every random draw is a function of the seed, the phase and, for the order of records, the epoch; for
the route of a record, the record and how often it was drawn before; for dropout, the update and the
process. So a run that is stopped
and resumed gives the same result as an uninterrupted one.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor

from pacer.core.contexts import CONTEXTS, context_of
from pacer.core.devices import copied_to_device
from pacer.core.errors import CheckpointError, ConfigError, DataError, PacerError
from pacer.core.io import atomic_path
from pacer.core.machine import peak_memory
from pacer.core.processes import prefetch
from pacer.core.progress import Ticker
from pacer.core.stops import Stopped, stop_requested, stops_deferred
from pacer.model.batch import TrainingBatch
from pacer.model.pacer import Pacer
from pacer.model.refine import DepthRouter
from pacer.training.examples import Examples, MicroBatch
from pacer.training.losses import TERMS, divisors_of
from pacer.training.optimizer import BlockOptimizer
from pacer.training.phases import Phase
from pacer.training.sampler import Sampler
from pacer.training.validation import validate

#: Receives named values and the number of their update.
Log = Callable[[dict[str, float], int], None]
#: A process's part of a micro-batch: its row numbers, and the rows as a batch on the CPU, which is
#: page-locked for a GPU.
Part = tuple[np.ndarray, TrainingBatch]
STATE = "state.pt"
#: Logged values that differ between two runs on the same machine.
TELEMETRY = ("tokens_per_second", "loader_wait", "memory_gb")


def train(
    model: Pacer,
    examples: Examples,
    phase: Phase,
    accelerator: Accelerator,
    scratch: Path,
    log: Log,
) -> dict[str, Tensor]:
    """Train one phase and return its trained weights (the last, or the best on validation).

    A state is saved at the interval ``train.state_interval``, before each validation, and when a
    signal asks to stop. A state is saved before the row and the validation of its update, so a
    resumed run begins with these.

    Args:
        model: with the phase's starting weights; only parameters that ``phase.trainable`` accepts
            are trained.
        scratch: directory of the resumable state, named by a fingerprint of parameters and inputs
            (``scratch_directory``), so a state of others is never loaded.
        log: called in every process; a resumed run logs the earlier rows again, so the log may
            start empty.

    Raises:
        ConfigError: more processes than records in a micro-batch.
        DataError: no records to train on, or to choose the best weights by.
        CheckpointError: the state of a stopped run cannot be read.
        PacerError: a loss or gradient is not finite; the message names the records of the batch.
    """
    run = _Run(model, examples, phase, accelerator)
    run.resume(scratch)
    for values, update in run.history:
        log(values, update)
    main = accelerator.is_main_process
    stream = run.stream(run.done)
    updates = phase.schedule.updates
    with stops_deferred(), Ticker(phase.name, updates, done=run.done, shown=main) as ticker:
        run.validate_and_log(log)  # of a resumed run's latest update
        while run.done < updates:
            run.update(stream)
            stopping = run.is_stopping()
            if main and (stopping or run.state_is_due):
                run.save(scratch)
            if stopping:
                raise Stopped
            run.validate_and_log(log)
            values, _ = run.history[-1]  # update 1 is always logged
            ticker.advance(note=f"loss {values['loss']:.3f}")
    return run.trained if run.best is None else run.best["weights"]


@dataclass
class Means:
    """Values to log by name, each a sum and a count, or a numerator and a denominator [2],
    which are added up over micro-batches, processes and updates.

    Losses are means over micro-batches, gates and depth weights over records; tokens are per
    second, and the wait for the loader is a share of the time. The names are the same in every
    process and update. A micro-batch has one context (unless contexts are mixed), so the values of
    other contexts may have a count of 0.
    """

    pairs: dict[str, Tensor] = field(default_factory=dict)

    def add(self, pairs: Mapping[str, Tensor]) -> None:
        """Add pairs of values to log."""
        for name, pair in pairs.items():
            self.pairs[name] = self.pairs[name] + pair if name in self.pairs else pair

    def values(self) -> dict[str, float]:
        """Return the means of all values that were logged."""
        pairs = torch.stack(list(self.pairs.values())).tolist()
        return {
            name: total / count
            for name, (total, count) in zip(self.pairs, pairs, strict=True)
            if count
        }


class Unchecked(NamedTuple):
    """An update whose numbers have not been checked."""

    #: Counted from 1, as in the log.
    update: int
    #: This process's rows of each micro-batch.
    rows: list[np.ndarray]
    #: On the device: the loss and the norm of the gradient, which are those of all processes, and
    #: the losses of this process's parts of the micro-batches.
    numbers: Tensor


class _Run:
    """A phase in training: the model, its optimiser, and the state to resume from."""

    def __init__(self, model: Pacer, examples: Examples, phase: Phase, accelerator: Accelerator):
        if phase.schedule.batch_size < accelerator.num_processes:
            raise ConfigError(
                f"{phase.name}.batch_size ({phase.schedule.batch_size} across all processes) must "
                f"be at least the number of processes ({accelerator.num_processes})"
            )
        val_rows = examples.table.rows("val", phase.contexts).values()
        if phase.train.checkpoint == "best" and not any(map(len, val_rows)):
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
        #: Updates so far.
        self.done = 0
        #: The number of processes that had been asked to stop when they last exchanged their
        #: gradients. A single process exchanges none, and does not use it.
        self.stop_requests = torch.zeros(())
        #: Of the updates since the last logged row.
        self.since_row = Means()
        #: The updates since the last check.
        self.unchecked: list[Unchecked] = []
        #: Logged rows, each with the number of its update.
        self.history: list[tuple[dict[str, float], int]] = []
        #: Loss and weights of the best validation.
        self.best: dict[str, Any] | None = None
        train_contexts = set(examples.table.frame.filter(split="train")["context"])
        #: Contexts of the phase that have train records.
        self.contexts = train_contexts.intersection(phase.contexts)
        #: Contexts of the latest update's records, in all processes.
        self.active_contexts: set[str] = set()
        #: Contexts of all records trained on since the start or resume.
        self.trained_contexts: set[str] = set()

    @property
    def trained(self) -> dict[str, Tensor]:
        """A copy of the trained weights, on the CPU."""
        return {
            name: parameter.detach().cpu().clone() for name, parameter in self.parameters.items()
        }

    def resume(self, scratch: Path) -> None:
        """Load the state that a stopped run left in ``scratch``, if there is one. Raises a
        CheckpointError if it cannot be read."""
        path = scratch / STATE
        if not path.exists():
            return
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            with torch.no_grad():
                for name, parameter in self.parameters.items():
                    parameter.copy_(state["weights"][name])
            self.optimizer.adamw.load_state_dict(state["optimizer"])
            self.done = state["update"]
            self.history = state["history"]
            self.best = state["best"]
            self.since_row = Means(
                {name: pair.to(self.accelerator.device) for name, pair in state["means"].items()}
            )
        except (OSError, MemoryError):
            raise
        except Exception as error:
            raise CheckpointError(
                f"{path} is damaged or was saved by a different version of PACER; delete it, and "
                f"{self.phase.name} trains from its beginning"
            ) from error

    def save(self, scratch: Path) -> None:
        """Write the current state to ``scratch``, replacing the old one. Raises a PacerError as
        :meth:`check_finite` does."""
        # only one process saves, so nothing here may communicate: with several processes,
        # `update` has already checked its numbers, and `check_finite` has nothing left to do
        self.check_finite()
        state = {
            "weights": self.trained,
            "optimizer": self.optimizer.adamw.state_dict(),
            "update": self.done,
            "history": self.history,
            "means": self.since_row.pairs,
            "best": self.best,
        }
        with atomic_path(scratch / STATE, durable=True) as temporary:
            torch.save(state, temporary)

    def stream(self, first: int) -> Iterator[Part]:
        """Yield this process's parts of the micro-batches from update ``first`` to the last."""
        rank = self.accelerator.process_index
        ranks = self.accelerator.num_processes

        def make(micro: MicroBatch) -> Part:
            # the batch holds the weights of its tokens; lambda_q is that of the commitment's tokens
            batch = self.examples.training_batch(micro, self.phase.losses.lambda_q)
            return micro.rows, batch.pinned_for(self.accelerator.device)

        left = (self.phase.schedule.updates - first) * self.phase.schedule.accumulation
        parts = (
            # `commits`: which rows are trained with a commitment; the others, on the direct route,
            # learn to write the report alone
            MicroBatch(micro.rows[rank::ranks], micro.commits[rank::ranks])
            for micro in islice(self.sampler.from_update(first), left)
        )
        return prefetch(make, parts, self.phase.train.workers)

    def update(self, stream: Iterator[Part]) -> None:
        """Take one optimiser step on the next micro-batches, and add its values to the means that
        the next row logs.

        Several processes communicate twice: for the denominators of the losses, and for the
        gradients and everything else that they add up. They wait for the result; a single process
        does not wait for its GPU.
        """
        phase = self.phase
        device = self.accelerator.device
        started = time.perf_counter()
        micros = [next(stream) for _ in range(phase.schedule.accumulation)]
        waited = time.perf_counter() - started
        self._start_update()

        # the denominators of each micro-batch's losses, over all processes
        divisors = torch.stack(
            [torch.stack(list(divisors_of(batch).values())) for _, batch in micros]
        )
        divisors = self.accelerator.reduce(copied_to_device(divisors, device), reduction="sum")

        # forward, terms and backward, for this process's part of each micro-batch
        of_update = Means()
        totals = []
        # every process adds its part's losses, but only one adds to the number of micro-batches
        counted_once = torch.full((), float(self.accelerator.is_main_process), device=device)
        for (_, batch), row in zip(micros, divisors, strict=True):
            result = phase.objective(
                self.model,
                batch.to(device),
                phase.losses,
                frontal_only=phase.frontal_only,
                divisors=dict(zip(TERMS, row, strict=True)),
            )
            (result.total / len(micros)).backward()
            totals.append(result.total.detach())
            losses = {"loss": totals[-1]}
            losses |= {f"loss_{name}": loss for name, loss in result.parts.items()}
            of_update.add(
                {name: torch.stack([loss.float(), counted_once]) for name, loss in losses.items()}
            )
            # depth weights and gates
            of_update.add({name: pair.float() for name, pair in result.means.items()})

        # one exchange between the processes
        batches = [batch for _, batch in micros]
        summed = self._sum_over_processes(_counts(batches) | of_update.pairs)
        pairs = {name: summed[name].double() for name in of_update.pairs}
        self.stop_requests = summed["stop_requests"]
        self.active_contexts = {
            context
            for context, records in zip(CONTEXTS, summed["records"].tolist(), strict=True)
            if records
        }

        # one step
        parameters = self.parameters.values()
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if phase.train.max_grad_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(parameters, phase.train.max_grad_norm, norm)
        loss, micro_batches = pairs["loss"]  # their sum and number
        numbers = torch.stack([loss / micro_batches, norm, *totals])
        self.unchecked.append(Unchecked(self.done + 1, [rows for rows, _ in micros], numbers))
        if self.accelerator.num_processes > 1:
            self.check_finite()
        # parameters that serve only contexts without a record in this update are not stepped
        self.optimizer.step(phase.learning_rate(self.done), self.active_contexts)
        self._check_all_got_gradients()
        self.done += 1

        # the values of this update, which is now the latest
        pairs["gradient_norm"] = torch.stack([norm, torch.ones_like(norm)]).double()
        if self._logs:
            self.check_finite()  # waits for a GPU, so that its time is counted
        elapsed = time.perf_counter() - started
        ratios = [[summed["tokens"].item(), elapsed], [waited, elapsed]]
        speed, wait = copied_to_device(torch.tensor(ratios, dtype=torch.float64), device)
        self.since_row.add(pairs | {"tokens_per_second": speed, "loader_wait": wait})

    def _start_update(self) -> None:
        """Drop the last gradients, and set the modes of the modules and the seed of dropout."""
        # dropout is for trained modules only; the rest of the model stays in evaluation mode
        self.model.eval()
        trained_modules = {prefix.split(".")[0] for prefix in self.phase.trained_prefixes}
        for name, module in self.model.named_children():
            module.train(name in trained_modules)
        seed = self.phase.train.seed
        text = f"{seed}|{self.phase.name}|{self.done}|{self.accelerator.process_index}"
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        torch.manual_seed(int.from_bytes(digest, "big") % 2**63)
        self.model.zero_grad()
        # AdamW steps on views of the parameters (for instance, one for the lateral view's part of a
        # matrix), whose gradients `BlockOptimizer.step` sets; they are dropped here, or the memory
        # of the last gradients would stay in use
        self.optimizer.adamw.zero_grad()

    def _sum_over_processes(self, own: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add up named values and the gradients over the processes in one exchange; return the
        values. A gradient stays None if no process has one."""
        if self.accelerator.num_processes == 1:
            return own
        device = self.accelerator.device
        has_gradient = [float(parameter.grad is not None) for parameter in self.parameters.values()]
        fields = own | {"has_gradient": torch.tensor(has_gradient)}
        for name, parameter in self.parameters.items():
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            fields[f"gradient of {name}"] = gradient
        vectors = [
            field.flatten() if field.is_cuda else copied_to_device(field.flatten(), device)
            for field in fields.values()
        ]
        joined = self.accelerator.reduce(torch.cat(vectors), reduction="sum")
        parts = joined.split([len(vector) for vector in vectors])
        sums = {
            name: part.view_as(field)
            for (name, field), part in zip(fields.items(), parts, strict=True)
        }
        processes = sums["has_gradient"].tolist()
        for (name, parameter), count in zip(self.parameters.items(), processes, strict=True):
            parameter.grad = sums[f"gradient of {name}"] if count else None
        return sums

    def check_finite(self) -> None:
        """Wait for the updates since the last check and check their numbers.

        Several processes check every update before its step. A single process, which need not wait
        for its GPU, checks before an update is saved, logged or validated.

        Raises a PacerError if a loss or gradient is not finite. The message names the records whose
        part of a micro-batch has such a loss, or all records of the update if only the gradient is
        not finite.
        """
        unchecked = self.unchecked
        self.unchecked = []
        if not unchecked:
            return
        all_numbers = torch.stack([one.numbers for one in unchecked]).tolist()
        for (update_number, all_rows, _), (loss, norm, *totals) in zip(
            unchecked, all_numbers, strict=True
        ):
            if not math.isfinite(loss):
                what = "loss"
                value = loss
                bad = [
                    rows
                    for rows, total in zip(all_rows, totals, strict=True)
                    if not math.isfinite(total)
                ]
            elif not math.isfinite(norm):
                what = "gradient norm"
                value = norm
                bad = all_rows
            else:
                continue
            table = self.examples.table
            # every process comes here, as they have the same loss and norm
            ids = gather_object([table.record_id(int(row)) for rows in bad for row in rows])
            raise PacerError(
                f"{self.phase.name}: the {what} at update {update_number} is {value} on "
                f"records {', '.join(ids)}; the last saved state is kept. Lower "
                f"{self.phase.name}.learning_rate, or inspect these records"
            )

    def is_stopping(self) -> bool:
        """Return whether to stop after the latest update. Several processes stop together, if any
        was asked to before their last exchange: one that waits for another could not save."""
        if self.accelerator.num_processes == 1:
            return stop_requested()
        return bool(self.stop_requests)

    @property
    def state_is_due(self) -> bool:
        """Whether to save a state after the latest update, even if no signal asks to stop."""
        return self._validates or self.done % self.phase.train.state_interval == 0

    @property
    def _validates(self) -> bool:
        """Whether validation follows the latest update."""
        return (
            self.done == self.phase.schedule.updates
            or self.done % self.phase.train.validation_interval == 0
        )

    @property
    def _logs(self) -> bool:
        """Whether a logged row follows the latest update."""
        return self._validates or self.done % self.phase.train.log_interval == 0 or self.done == 1

    def validate_and_log(self, log: Log) -> None:
        """Validate and log after the latest update, if that is due and not yet done. The best
        weights are kept if ``train.checkpoint`` is ``best``."""
        last_logged = self.history[-1][1] if self.history else 0
        if self.done == last_logged or not self._logs:  # or nothing is done yet
            return
        losses = {}
        if self._validates:
            losses = validate(self.model, self.examples, self.phase, self.accelerator)
            mean = losses.get("validation/mean", math.inf)
            mean = math.inf if math.isnan(mean) else mean  # no mean is less than NaN
            if self.phase.train.checkpoint == "best" and (
                self.best is None or mean < self.best["loss"]
            ):
                self.best = {"loss": mean, "weights": self.trained}
        row = self.log_row() | losses
        self.history.append((row, self.done))
        log(row, self.done)

    def log_row(self) -> dict[str, float]:
        """Return the values to log: means since the last row, and current values of the latest
        update."""
        row = self.since_row.values()
        self.since_row = Means()
        update = self.done - 1  # schedules count updates from 0
        row["learning_rate"] = self.phase.learning_rate(update)
        row["rho"] = self.phase.rho(update)  # the probability of the direct route
        device = self.accelerator.device
        memory = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_memory()
        row["memory_gb"] = memory / 1e9
        if isinstance(self.model.router, DepthRouter):
            row["alpha"] = self.model.router.scale.item()
        return row

    def _check_all_got_gradients(self) -> None:
        """Check, at the first step after which every context of the phase had a record, that
        training reaches all parameters. Raises a PacerError if a parameter that these contexts use
        has had no gradient."""
        if self.trained_contexts >= self.contexts:
            return
        self.trained_contexts |= self.active_contexts
        if not self.trained_contexts >= self.contexts:
            return
        unreached = self.optimizer.never_stepped(self.contexts)
        if unreached:
            raise PacerError(
                f"{self.phase.name}: {len(unreached)} of {len(self.parameters)} trainable tensors "
                f"got no gradient, e.g. {unreached[0]}, so training would not change them; for "
                "LoRA, choose different lora.targets"
            )


def _counts(batches: list[TrainingBatch]) -> dict[str, Tensor]:
    """Count by name what the processes add up beside losses and gradients: requests to stop,
    tokens, and records of each context."""
    contexts = [context_of(*row) for batch in batches for row in batch.availability.tolist()]
    return {
        "stop_requests": torch.tensor(float(stop_requested())),
        "tokens": torch.tensor(float(sum(int(batch.length.sum()) for batch in batches))),
        "records": torch.tensor([float(contexts.count(context)) for context in CONTEXTS]),
    }
