"""When the host waits for the device: in an update whose values are logged, once. And what is computed on it."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Self

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from pacer.training.loop import _Run
from pacer.training.losses import objective
from pacer.training.phases import phase_of
from tests.support.training import parameters

#: Operations whose result, or its shape, the host must read.
READING = {
    torch.ops.aten._local_scalar_dense.default: "item",  # .item(), int(), float(), bool()
    torch.ops.aten.nonzero.default: "nonzero",
    torch.ops.aten.masked_select.default: "masked_select",
    torch.ops.aten._unique2.default: "unique",
    torch.ops.aten.repeat_interleave.Tensor: "repeat_interleave",
}
INDEXING = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default}
#: Calls that copy to the host, or from memory that is not page-locked.
CALLS = {
    Tensor.tolist: "tolist",
    Tensor.cpu: "cpu",
    Tensor.numpy: "numpy",
    Tensor.new_tensor: "new_tensor",
    torch.tensor: "tensor",
    torch.as_tensor: "as_tensor",
    torch.from_numpy: "from_numpy",
}


class _Operations(TorchDispatchMode):
    def __init__(self, seen: list[str]):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        if function in READING:
            self.seen.append(READING[function])
        elif function in INDEXING:
            masks = [one for one in arguments[1] if one is not None and one.dtype in (torch.bool, torch.uint8)]
            self.seen += ["mask"] * bool(masks)
        return function(*arguments, **(keywords or {}))


class Syncs(TorchFunctionMode):
    """``seen``: the names of what was called inside, in order. As :meth:`torch.cuda.set_sync_debug_mode` counts them,
    but a copy that :func:`pacer.core.devices.sent` makes is none."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.operations = _Operations(self.seen)

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        if function in CALLS:
            self.seen.append(CALLS[function])
        return function(*arguments, **(keywords or {}))

    def __enter__(self) -> Self:
        self.operations.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.operations.__exit__(*error)


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
