"""Every row of the paper's component and mechanism ablations, trained from its parameters alone.

A row is a set of overrides of ``params.yaml``. All rows go through warm-up and parent, and through Calibrate where they
have it, in the loop that the stages run. Weight decay is off, so that a parameter changes only by its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from pacer.config import Params
from pacer.model.assemble import build_model, load_tokenizer
from pacer.model.checkpoint import specification_of
from pacer.model.pacer import Pacer
from pacer.training import loop
from pacer.training.examples import Examples
from pacer.training.phases import phase_of
from tests.support import drive
from tests.support.models import MODEL
from tests.support.training import record_table

#: Component ablations: Refine, Commit and Calibrate on or off.
COMPONENTS = {
    "Base": {"refine.variant": "endpoint", "commit.route": "direct", "calibrate.gate_inputs": "none"},
    "Refine only": {"commit.route": "direct", "calibrate.gate_inputs": "none"},
    "Commit only": {"refine.variant": "endpoint", "calibrate.gate_inputs": "none"},
    "Refine + Commit": {"calibrate.gate_inputs": "none"},
    "+ Calibrate": {},
}
#: Mechanism ablations that are none of these.
MECHANISMS = {
    "Refine: global": {"refine.variant": "global", "calibrate.gate_inputs": "none"},
    "Commit: always": {"commit.route": "always", "calibrate.gate_inputs": "none"},
    "Calibrate: h": {"calibrate.gate_inputs": "h"},
    "Calibrate: h, e": {"calibrate.gate_inputs": "he"},
    "Calibrate: h, z": {"calibrate.gate_inputs": "hz"},
}
UPDATES = 5


def parameters(overrides: dict[str, Any]) -> Params:
    """Short phases of the tiny models, with overrides as ``group.key``."""
    phase = {"updates": UPDATES, "batch_size": 4, "warmup_updates": 1, "learning_rate": 0.01}
    groups: dict[str, dict[str, Any]] = {name: dict(phase) for name in ("warmup", "parent", "calibrate")}
    groups["train"] = {"weight_decay": 0.0, "validation_interval": UPDATES}
    for key, value in overrides.items():
        group, name = key.split(".")
        groups.setdefault(group, {})[name] = value
    return drive.parameters(MODEL, **groups)


class Trained(NamedTuple):
    """One phase of one row: the model, its parameters at the start, what was logged, and the routes that were drawn."""

    model: Pacer
    start: dict[str, Tensor]
    logged: list[dict[str, float]]
    routes: set[bool]


def noting(draw: Callable[..., list[bool]], routes: set[bool]) -> Callable[..., list[bool]]:
    """``draw``, which adds what it draws to ``routes``."""

    def noted(*given: Any) -> list[bool]:
        drawn = draw(*given)
        routes.update(drawn)
        return drawn

    return noted


@pytest.fixture
def row(records, anchors, backbones: Path, features, accelerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def train(overrides: dict[str, Any]) -> dict[str, Trained]:
        """Warm-up, parent and, where the row has it, Calibrate, each from the weights of the one before."""
        params, done, weights = parameters(overrides), dict[str, Trained](), dict[str, Tensor]()
        calibrates = params.calibrate.gate_inputs != "none"
        draw = Examples.routes
        for name in ("warmup", "parent", "calibrate")[: 3 if calibrates else 2]:
            torch.manual_seed(5)
            own = specification_of(name, params)
            model = build_model(backbones, own)
            with torch.no_grad():
                for parameter, value in weights.items():
                    model.get_parameter(parameter).copy_(value)
            if name == "calibrate":
                model.merge_lora()
            rows, labels = (records.filter(context="sn"), None) if name == "warmup" else (records, anchors)
            examples = Examples(record_table(rows, labels), load_tokenizer(backbones), features, own)
            done[name] = Trained(model, {n: p.detach().clone() for n, p in model.named_parameters()}, [], set())
            (tmp_path / name).mkdir(exist_ok=True)
            with monkeypatch.context() as patch:
                patch.setattr(Examples, "routes", noting(draw, done[name].routes))
                log = done[name].logged
                phase = phase_of(name, params)
                loop.train(model, examples, phase, accelerator, tmp_path / name, lambda v, s, log=log: log.append(v))
            weights |= {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
        return done

    return train


def named(model: Pacer, *prefixes: str) -> set[str]:
    """Parameters under these prefixes; of the language model LoRA alone."""
    names = {n for n, _ in model.named_parameters() if n.startswith(prefixes)}
    return {n for n in names if not n.startswith("language.") or "lora_" in n}


@pytest.mark.parametrize("overrides", [*COMPONENTS.values(), *MECHANISMS.values()], ids=[*COMPONENTS, *MECHANISMS])
def test_a_row_trains_what_it_is_made_of_and_nothing_else(overrides: dict[str, str], row) -> None:
    done = row(overrides)
    for name, phase in done.items():
        losses = [
            value for point in phase.logged for key, value in point.items() if key.startswith(("loss", "validation"))
        ]
        assert len(phase.logged) == UPDATES and losses and all(math.isfinite(loss) for loss in losses)
        trained = {
            "warmup": ("router.", "interface.queries", "interface.frontal."),
            "parent": ("router.", "interface.", "language."),
            "calibrate": ("calibrator.",),
        }[name]
        expected = named(phase.model, *trained)
        if "e" not in overrides.get("calibrate.gate_inputs", "hze") and name == "calibrate":
            expected -= {"calibrator.availability.weight"}  # a cue that is off has no gradient
        assert {n for n, p in phase.model.named_parameters() if not torch.equal(p, phase.start[n])} == expected

    variant = overrides.get("refine.variant", "patchwise")
    for phase in done.values():
        router = {n for n, _ in phase.model.router.named_parameters()}
        assert ("route_vector" in router) is (variant == "patchwise")
        assert ("eta" in router) is (variant != "endpoint")
        assert router or variant == "endpoint"
    route = overrides.get("commit.route", "stochastic")
    assert done["warmup"].routes == {False}
    assert done["parent"].routes == {"direct": {False}, "always": {True}, "stochastic": {False, True}}[route]
    assert ("calibrate" in done) is (overrides.get("calibrate.gate_inputs") != "none")
    assert done["parent"].model.calibrator is None
