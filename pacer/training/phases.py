"""The three phases as rows of data: what each starts from, trains, and is trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pacer.core.contexts import CONTEXTS
from pacer.params import Params
from pacer.training.schedule import direct_probability


@dataclass(frozen=True)
class Phase:
    """One row of the training protocol (paper, appendix "Optimization Protocol").

    Attributes:
        name, start: this phase and the one whose weights it starts from.
        contexts: contexts it trains on. bare: no instruction around the visual tokens.
        regularised: with the KL to the frozen parent and the drift of the prefix.
        trains: prefixes of the trainable parameters' names; of the language model only LoRA is ever trained.
        learning_rate, batch_size, accumulation, updates, warmup_updates, lambda_q: as in ``params.yaml``.
        rho: probability of the direct route at an update.
    """

    name: str
    start: str | None
    contexts: tuple[str, ...]
    bare: bool
    regularised: bool
    trains: tuple[str, ...]
    learning_rate: float
    batch_size: int
    accumulation: int
    updates: int
    warmup_updates: int
    lambda_q: float
    rho: Callable[[int], float]

    def trainable(self, name: str) -> bool:
        """Is the parameter of this name trained in this phase."""
        return name.startswith(self.trains) and (not name.startswith("language.") or "lora_" in name)


def phase_of(name: str, params: Params) -> Phase:
    """The phase ``warmup``, ``parent`` or ``calibrate`` with the values of ``params``."""
    if name == "warmup":
        return _phase(
            "warmup",
            None,
            params.warmup,
            ("sn",),
            True,
            False,
            ("router.", "interface.queries", "interface.frontal."),
            1.0,
            lambda update: 1.0,
        )
    fixed = {"direct": 1.0, "always": 0.0}.get(params.commit.route)
    if name == "parent":
        own = params.parent
        rho = (
            (lambda u: direct_probability(u, own.rho_start, own.rho_end, own.rho_updates))
            if fixed is None
            else (lambda u: fixed)
        )
        return _phase(
            "parent", "warmup", own, CONTEXTS, False, False, ("router.", "interface.", "language."), own.lambda_q, rho
        )
    if name == "calibrate":
        own_rho = params.calibrate.rho if fixed is None else fixed
        return _phase(
            "calibrate",
            "parent",
            params.calibrate,
            CONTEXTS,
            False,
            True,
            ("calibrator.",),
            params.calibrate.lambda_q,
            lambda u: own_rho,
        )
    raise ValueError(f"phase {name!r} is not warmup, parent or calibrate")


def _phase(name, start, own, contexts, bare, regularised, trains, lambda_q, rho) -> Phase:
    return Phase(
        name,
        start,
        tuple(contexts),
        bare,
        regularised,
        trains,
        own.learning_rate,
        own.batch_size,
        own.accumulation,
        own.updates,
        own.warmup_updates,
        lambda_q,
        rho,
    )
