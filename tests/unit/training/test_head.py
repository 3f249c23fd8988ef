"""The head by chunks, against the losses as the paper writes them; what is computed on the device,
and its waits."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Self
from unittest.mock import patch

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from pacer.training.loop import _Run
from pacer.training.losses import LOGITS_AT_ONCE, objective, ratio, token_terms
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
INDEXING = {
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put.default,
    torch.ops.aten.index_put_.default,
}
#: Calls that copy to the host, or from memory that is not page-locked.
COPYING = (
    Tensor.tolist,
    Tensor.cpu,
    Tensor.numpy,
    Tensor.new_tensor,
    torch.tensor,
    torch.as_tensor,
    torch.from_numpy,
)
CALLS = {call: call.__name__ for call in COPYING}


class _Operations(TorchDispatchMode):
    def __init__(self, seen: list[str]):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), keywords: Any = None
    ) -> Any:
        if function in READING:
            self.seen.append(READING[function])
        elif function in INDEXING:
            masks = [
                one
                for one in arguments[1]
                if one is not None and one.dtype in (torch.bool, torch.uint8)
            ]
            self.seen += ["mask"] * bool(masks)
        return function(*arguments, **(keywords or {}))


class Syncs(TorchFunctionMode):
    """``seen``: the names of what was called inside, in order. As
    :meth:`torch.cuda.set_sync_debug_mode` counts them, but a copy that
    :func:`pacer.core.devices.copied_to_device` makes is none."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.operations = _Operations(self.seen)

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), keywords: Any = None
    ) -> Any:
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
    name: str,
    options: dict,
    setting,
    device_accelerator,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the CPU the optimiser is not watched, whose counts of steps are on the host anyway. What
    is read there are the batches and the counts of tokens and contexts, which lie on the CPU on any
    machine."""
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
    monkeypatch.setattr(run.optimizer, "step", lambda *_: None)
    monkeypatch.setattr(run, "_check_all_got_gradients", lambda: None)
    with Syncs() as syncs:
        run.update(iter(micros))
    counted = ["tolist"] * len(micros) + ["tensor"] + ["item"] * len(micros) + ["tensor", "tensor"]
    assert syncs.seen == [*counted, "tolist", "item", "tensor"]
    with Syncs() as syncs:
        run.check_finite()
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
    assert all(
        parameter.grad.is_meta for parameter in model.parameters() if parameter.grad is not None
    )
    with pytest.raises(RuntimeError, match="is not on the expected device"):
        batch.omega + batch.omega.to("meta")


def at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


class Case:
    """Random hidden states of n tokens in one sample, with the weights of all terms."""

    def __init__(
        self,
        n: int,
        vocabulary: int,
        width: int = 12,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ):
        make = torch.Generator().manual_seed(seed)
        self.head = torch.randn(vocabulary, width, generator=make, dtype=torch.float64) * 0.5
        self.hidden, self.teacher = (
            torch.randn(n, width, generator=make, dtype=torch.float64) for _ in range(2)
        )
        self.targets = torch.randint(0, vocabulary, (n,), generator=make)
        self.omega = torch.rand(n, generator=make, dtype=torch.float64)
        self.emphasis = (torch.rand(n, generator=make) < 0.4).double()
        self.mask = torch.rand(n, generator=make) < 0.6
        self.kappa = torch.tensor([0.35], dtype=torch.float64)
        for name, value in vars(self).items():
            if value.is_floating_point():
                setattr(self, name, value.to(dtype))
        self.hidden.requires_grad_()

    def reference(self, with_teacher: bool) -> Tensor:
        """lambda_TLW 0.75, lambda_cons 0.05, over logits of all tokens at once."""
        logits = self.hidden.to(self.head.dtype) @ self.head.T
        nll = F.cross_entropy(at_least_float32(logits), self.targets, reduction="none")[None]
        total = self.likelihood(nll[0])
        if not with_teacher:
            return total
        both = (self.teacher.to(self.head.dtype) @ self.head.T, logits)
        log_p0, log_p = (F.log_softmax(at_least_float32(own[self.mask]), -1) for own in both)
        divergence = torch.linalg.vecdot(log_p0.exp(), log_p0 - log_p).sum()
        return total + 0.05 * divergence / self.mask.sum().clamp(min=1)

    def chunked(self, with_teacher: bool, logits_at_once: int = 2**23) -> Tensor:
        teacher = (self.teacher, self.mask, int(self.mask.sum())) if with_teacher else ()
        with patch.dict(LOGITS_AT_ONCE, {self.hidden.device.type: logits_at_once}):
            nll, divergence = token_terms(self.hidden, self.head, self.targets, *teacher)
        return self.likelihood(nll) + 0.05 * ratio(divergence, self.mask.sum(), eps=0)

    def likelihood(self, nll: Tensor) -> Tensor:
        omega, kappa, s = (
            weight.to(nll.dtype) for weight in (self.omega, self.kappa, self.emphasis)
        )
        return ratio(omega * nll, omega.sum() + kappa.sum()) + 0.75 * ratio(s * nll, s.sum())


def in_float64(case: Case) -> None:
    """The same rounded numbers, to be computed with in float64."""
    for name, value in vars(case).items():
        if value.is_floating_point():
            setattr(case, name, value.detach().double())
    case.hidden.requires_grad_()


def value_and_gradient(total: Tensor, case: Case) -> tuple[Tensor, Tensor]:
    return total.detach(), torch.autograd.grad(total, case.hidden)[0]


def close(one: Tensor, other: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(
        one, other, rtol=0, atol=tolerance * max(other.abs().max().item(), 1e-30)
    )


@given(
    n=st.integers(1, 40),
    vocabulary=st.integers(2, 60),
    rows=st.integers(1, 50),
    with_teacher=st.booleans(),
    seed=st.integers(0, 99),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
@example(n=1, vocabulary=2, rows=1, with_teacher=True, seed=8, dtype=torch.float32)
@example(n=1, vocabulary=2, rows=1, with_teacher=True, seed=81, dtype=torch.float32)
def test_it_equals_the_definition(
    n: int, vocabulary: int, rows: int, with_teacher: bool, seed: int, dtype
) -> None:
    """The definition is computed in float64. In float32 p - 1 of a nearly certain token loses
    digits: the difference is held against the terms too, which are as large as the head, not
    against the small gradient alone."""
    case, exact = (Case(n, vocabulary, seed=seed, dtype=dtype) for _ in range(2))
    in_float64(exact)
    expected = value_and_gradient(exact.reference(with_teacher), exact)
    chunked = value_and_gradient(case.chunked(with_teacher, rows * vocabulary), case)
    tolerance, rounding = 1e-6 if dtype == torch.float32 else 1e-12, 4 * torch.finfo(dtype).eps
    for one, other in zip(chunked, expected, strict=True):
        allowed = tolerance * other.abs().max() + rounding * case.head.abs().max()
        assert (one.double() - other).abs().max() <= allowed


@pytest.mark.parametrize("with_teacher", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_in_bfloat16_it_is_no_further_from_float64_than_the_definition(
    with_teacher: bool, seed: int
) -> None:
    """The hidden states of a bfloat16 model are float32, as those of its layers' sums."""
    case, exact = (Case(200, 1000, width=64, seed=seed, dtype=torch.bfloat16) for _ in range(2))
    in_float64(exact)
    case.teacher, case.hidden = case.teacher.float(), case.hidden.detach().float().requires_grad_()
    truth = value_and_gradient(exact.reference(with_teacher), exact)
    plain = value_and_gradient(case.reference(with_teacher), case)
    chunked = value_and_gradient(case.chunked(with_teacher, 50 * 1000), case)
    for kind, real, one, other in zip(("value", "gradient"), truth, chunked, plain, strict=True):
        errors = [(result.double() - real).norm() / real.norm() for result in (one, other)]
        assert 0 < errors[0] <= errors[1] * 1.02 + 1e-7, (kind, errors)
        assert errors[0] < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_a_small_divergence_at_large_logits_survives_bfloat16(seed: int) -> None:
    """The reference computes in float64 with the same rounded operands. Logits that were rounded to
    bfloat16 once made ten times too much of it."""
    make = torch.Generator().manual_seed(seed)
    head = (torch.randn(2000, 64, generator=make)).bfloat16()
    states = torch.randn(40, 64, generator=make).bfloat16()
    parent = (states.float() * (1 + 2**-8)).bfloat16()
    targets, mask = torch.randint(0, 2000, (40,), generator=make), torch.ones(40, dtype=torch.bool)
    logits, logits_0 = (operand.double() @ head.double().T for operand in (states, parent))
    assert 20 < logits.abs().max() < 60
    exact = F.kl_div(
        logits.log_softmax(1), logits_0.log_softmax(1), log_target=True, reduction="none"
    ).sum(1)
    found = token_terms(states.float(), head, targets, parent.float(), mask, len(mask))
    assert exact.mean() < 1e-3 and (found[1].mean() - exact.mean()).abs() < 0.02 * exact.mean()
    close(found[0].double(), F.cross_entropy(logits, targets, reduction="none"), 1e-6)


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        out = function(*arguments, **(keywords or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return out


@pytest.mark.parametrize("with_teacher", [False, True])
def test_logits_never_exist_together(with_teacher: bool) -> None:
    case = Case(64, 500)
    with Largest() as seen:
        case.chunked(with_teacher, 8 * 500).backward()
    assert seen.elements == 500 * 12  # the head's own weight
    with Largest() as seen:
        case.reference(with_teacher).backward()
    assert seen.elements == 64 * 500


def test_tokens_outside_the_mask_do_not_ask_the_teacher() -> None:
    case = Case(20, 30)
    case.teacher[~case.mask] = float("nan")
    value, gradient = value_and_gradient(case.chunked(True), case)
    assert value.isfinite() and gradient.isfinite().all()


def test_the_head_is_frozen() -> None:
    case = Case(20, 30)
    case.head.requires_grad_()
    case.chunked(True).backward()
    assert case.head.grad is None and case.hidden.grad.any()


def test_no_token_at_all_is_a_loss_of_zero() -> None:
    case = Case(0, 30)
    total = case.chunked(True)
    total.backward()
    assert total.item() == 0.0 and case.hidden.grad.shape == (0, 12)
