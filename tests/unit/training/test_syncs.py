"""When the host waits for the device: in an update whose values are logged, once. And what is computed on it."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from pacer.training.loop import _Run
from pacer.training.losses import objective
from pacer.training.phases import phase_of
from tests.support.syncs import Syncs
from tests.support.training import parameters

MASK = torch.tensor([True, False])
#: What makes the host wait, and the name under which it is noted.
PLANTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda x: x[0].item(),
    "int": lambda x: int(x[0]),
    "bool": lambda x: bool(x[0] > 0),
    "tolist": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[MASK.to(x.device)],
    "set by mask": lambda x: x.clone().__setitem__(MASK.to(x.device), 1.0),
    "tensor": lambda x: torch.tensor([1, 2], device=x.device),
    "new_tensor": lambda x: x.new_tensor([1.0]),
    "cpu": lambda x: x.cpu(),
}
NOTED = {"int": "item", "bool": "item", "set by mask": "mask"}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_one_is_found(name: str) -> None:
    values = torch.tensor([1.0, 2.0])
    with Syncs() as syncs:
        (values + 1).sum()
        PLANTED[name](values)
    assert syncs.seen == [NOTED.get(name, name)]


@pytest.mark.parametrize("options", [{}, {"batches": {"mix": True}}], ids=["rounds", "mixed"])
@pytest.mark.parametrize("name", ["warmup", "parent", "calibrate"])
def test_only_an_update_that_is_logged_waits(
    name: str, options: dict, setting, device_accelerator, device: torch.device
) -> None:
    """On the CPU the optimiser is not watched, whose counts of steps are on the host anyway. What is read there are the
    batches, which lie on the CPU on any machine."""
    model, examples = setting(name)
    params = parameters(**options, train={"log_interval": 3, "validation_interval": 100})
    run = _Run(model, examples, phase_of(name, params), device_accelerator())
    stream = run.stream(0)
    run.update(stream)  # libraries prepare themselves
    if device.type == "cuda":
        waits = []
        for _ in range(2):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                torch.cuda.set_sync_debug_mode("warn")
                run.update(stream)
                torch.cuda.set_sync_debug_mode("default")
            waits.append(sum("called a synchronizing" in str(warning.message) for warning in told))
        assert waits == [0, 1]
        return
    micros = [next(stream) for _ in range(run.phase.schedule.accumulation)]
    with Syncs() as syncs:
        run.gradient(micros)
    assert syncs.seen == ["tolist"] * len(micros) + ["item"] * len(micros)
    with Syncs() as syncs:
        run.check()
    assert syncs.seen == ["tolist"]


@pytest.mark.parametrize("name", ["warmup", "parent", "calibrate"])
def test_losses_are_computed_where_the_model_is(
    name: str, setting, accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a device without values, which refuses to be read and to meet values of the CPU."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # unknown to this device
    model, examples = setting(name)
    run = _Run(model, examples, phase_of(name, parameters()), accelerator)
    _, batch = next(run.stream(0))
    objective(model.to("meta"), batch.to("meta"), run.phase.losses).total.backward()
    assert all(parameter.grad.is_meta for parameter in model.parameters() if parameter.grad is not None)
    with pytest.raises(RuntimeError, match="is not on the expected device"):
        batch.omega + batch.omega.to("meta")
