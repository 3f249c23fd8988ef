"""The three phases as data: the parameters, contexts, losses and schedule of each phase."""

import math
from dataclasses import dataclass, replace

from pacer.config import Params
from pacer.config.training import Batches, Schedule, Train
from pacer.core.contexts import CONTEXTS
from pacer.training.losses import Loss, LossWeights, objective


@dataclass(frozen=True)
class DirectProbability:
    """Probability of the direct route: changes linearly, then stays constant."""

    #: At update 0.
    start: float
    #: From update ``rise`` on.
    end: float
    #: Number of updates over which it changes.
    rise: int = 0

    def __call__(self, update: int) -> float:
        """Return rho at an update, counted from 0."""
        if update >= self.rise:
            return self.end
        return self.start + (self.end - self.start) * update / self.rise


#: Parameter prefixes by value of ``calibrate.trains``: the paper's calibrator, or parts of the
#: parent for comparison.
TRAINED = {
    "calibrator": ("calibrator.",),
    "interface": ("router.", "interface."),
    "lora": ("language.",),
}


@dataclass(frozen=True)
class Phase:
    """One row of the training protocol (paper, appendix "Optimization Protocol")."""

    name: str
    #: Contexts of the records that it trains on.
    contexts: tuple[str, ...]
    #: Whether the model gets only the frontal tokens, unfused and without an instruction, as in
    #: upstream's first stage.
    frontal_only: bool
    #: Prefixes of the trainable parameters' names; in the language model only LoRA is ever trained.
    trained_prefixes: tuple[str, ...]
    #: Learning rate, batch size and number of updates.
    schedule: Schedule
    losses: LossWeights
    rho: DirectProbability
    #: The group ``train`` of ``params.yaml``.
    train: Train
    #: The group ``batches`` of ``params.yaml``.
    batches: Batches
    #: The loss to minimise, with the weights ``losses``.
    objective: Loss = objective

    def trainable(self, name: str) -> bool:
        """Whether this phase trains the parameter of this name."""
        return name.startswith(self.trained_prefixes) and (
            not name.startswith("language.") or "lora_" in name
        )

    def learning_rate(self, update: int) -> float:
        """Return the learning rate: linear from 0, then a cosine to 0 after the last update.
        ``update`` counts from 0.

        This is transformers' ``get_cosine_schedule_with_warmup``, as upstream uses it.
        """
        peak = self.schedule.learning_rate
        rise = self.schedule.warmup_updates
        if update < rise:
            return peak * (update / rise)
        progress = (update - rise) / max(self.schedule.updates - rise, 1)
        return peak * (0.5 * (1 + math.cos(math.pi * min(progress, 1.0))))


def phase_of(name: str, params: Params) -> Phase:
    """Return the phase ``warmup``, ``parent`` or ``calibrate`` with the values of ``params``."""
    fixed = fixed_route(params.commit.route)
    losses = LossWeights(lambda_tlw=params.train.lambda_tlw)
    if name == "warmup":
        schedule = params.warmup
        contexts = ("sn",)
        trained_prefixes = ("router.", "interface.queries", "interface.frontal.")
        rho = DirectProbability(1.0, 1.0)
    elif name == "parent":
        schedule = params.parent
        contexts = tuple(c for c in CONTEXTS if c in (schedule.contexts or CONTEXTS))
        trained_prefixes = ("router.", "interface.", "language.")
        rho = fixed or DirectProbability(schedule.rho_start, schedule.rho_end, schedule.rho_updates)
        losses = replace(losses, lambda_q=schedule.lambda_q)
    elif name == "calibrate":
        schedule = params.calibrate
        contexts = CONTEXTS
        trained_prefixes = TRAINED[schedule.trains]
        rho = fixed or DirectProbability(schedule.rho, schedule.rho)
        losses = replace(
            losses,
            lambda_q=schedule.lambda_q,
            lambda_cons=schedule.lambda_cons,
            lambda_drift=schedule.lambda_drift,
        )
    else:
        raise ValueError(f"unknown phase {name!r}; expected warmup, parent or calibrate")
    return Phase(
        name=name,
        contexts=contexts,
        frontal_only=name == "warmup",
        trained_prefixes=trained_prefixes,
        schedule=schedule,
        losses=losses,
        rho=rho,
        train=params.train,
        batches=params.batches,
    )


def fixed_route(route: str) -> DirectProbability | None:
    """Return the constant rho of ``commit.route``; None if routes are drawn (``stochastic``)."""
    rho = {"direct": 1.0, "always": 0.0}.get(route)
    return None if rho is None else DirectProbability(rho, rho)
