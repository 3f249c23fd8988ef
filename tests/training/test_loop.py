"""The loop: what is trained, exact resume, and the errors of a run that goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pacer.core.errors import DataError, PacerError
from pacer.training import loop
from pacer.training.examples import Draw
from pacer.training.phases import phase_of
from tests.training.conftest import parameters

TRAINED = {
    "warmup": ("router.", "interface.queries", "interface.frontal."),
    "parent": ("router.", "interface.", "lora_"),
    "calibrate": ("calibrator.",),
}


@pytest.mark.parametrize("name", ["warmup", "parent", "calibrate"])
def test_a_phase_trains_its_parameters_and_no_other(name: str, setting, accelerator, tmp_path: Path) -> None:
    params = parameters()
    model, examples = setting(name)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    logged: list[dict] = []
    loop.train(model, examples, phase_of(name, params), params, accelerator, tmp_path, lambda v, s: logged.append(v))
    for parameter, value in model.named_parameters():
        expected = any(part in parameter for part in TRAINED[name]) and (
            parameter.startswith(TRAINED[name]) or "lora_" in parameter)
        assert value.requires_grad is expected, parameter
        if not expected:
            assert torch.equal(value, before[parameter]), parameter
    changed = [n for n, p in model.named_parameters() if not torch.equal(p, before[n])]
    assert len(changed) >= 0.9 * sum(p.requires_grad for p in model.parameters())
    parts = {"loss", "loss_trajectory", "loss_emphasis", "learning_rate", "rho", "gradient_norm", "alpha"}
    if name == "calibrate":
        parts |= {"loss_consistency", "loss_drift", "gate/sn", "gate/mw"}
    assert parts <= set().union(*logged) and "validation/mean" in logged[-1]


@pytest.mark.parametrize("name", ["parent", "calibrate"])
def test_a_stopped_run_continues_as_if_nothing_had_happened(
    name: str, setting, accelerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = parameters(batches={"window": 2})
    phase = phase_of(name, params)

    def run(folder: Path) -> tuple[dict, list]:
        folder.mkdir(exist_ok=True)
        logged: list = []
        model, examples = setting(name)
        weights = loop.train(model, examples, phase, params, accelerator, folder,
                             lambda v, s: logged.append((s, v["loss"])))
        return weights, logged

    whole, curve = run(tmp_path / "whole")
    gradient, count = loop._Run.gradient, iter(range(100))

    def stopping(self, *arguments):
        if next(count) == 5:
            raise KeyboardInterrupt
        return gradient(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Run, "gradient", stopping)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped")
    resumed, resumed_curve = run(tmp_path / "stopped")
    assert resumed_curve == curve
    for parameter in whole:
        assert torch.equal(whole[parameter], resumed[parameter]), parameter


def test_a_loss_that_is_not_finite_names_the_records(setting, accelerator, tmp_path: Path) -> None:
    params = parameters()
    model, examples = setting("parent")
    with torch.no_grad():
        model.interface.fusion.bias.fill_(float("nan"))
    with pytest.raises(PacerError, match=r"loss of update 0 is nan on records sn-\d"):
        loop.train(model, examples, phase_of("parent", params), params, accelerator, tmp_path, lambda v, s: None)


def test_best_keeps_the_weights_of_the_lowest_validation_loss(
    setting, accelerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = parameters(train={"checkpoint": "best", "validation_interval": 2})
    losses = iter([3.0, 1.0, 2.0])
    seen: list[dict] = []

    def validate(model, *arguments) -> dict:
        seen.append({n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad})
        return {"validation/mean": next(losses)}

    monkeypatch.setattr(loop, "validate", validate)
    model, examples = setting("parent")
    best = loop.train(model, examples, phase_of("parent", params), params, accelerator, tmp_path, lambda v, s: None)
    assert all(torch.equal(best[n], seen[1][n]) for n in best)


def test_best_without_validation_records_is_refused(setting, accelerator, tmp_path: Path) -> None:
    params = parameters(train={"checkpoint": "best"})
    model, examples = setting("parent")
    examples.table.split[:] = 0  # every record is in train
    with pytest.raises(DataError, match="needs records in split val"):
        loop.train(model, examples, phase_of("parent", params), params, accelerator, tmp_path, lambda v, s: None)


@pytest.mark.parametrize(("route", "expected"),
                         [("direct", {False}), ("always", {True}), ("stochastic", {False, True})])
def test_routes(route: str, expected: set, setting) -> None:
    phase = phase_of("parent", parameters(commit={"route": route}))
    _, examples = setting("parent")
    rows = examples.table.rows("train", ("sn",))["sn"]
    drawn = {commit for visit in range(20)
             for commit in examples.routes(rows, rows * 0 + visit, phase.rho(10**6), Draw(1, "parent"))}
    assert drawn == expected
