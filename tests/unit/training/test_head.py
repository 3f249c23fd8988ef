"""The head that forms gradients chunk by chunk, against the losses as the paper writes them."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from pacer.training.head import token_terms
from pacer.training.losses import ratio


def at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


class Case:
    """Random hidden states of n tokens in one sample, with the weights of all terms."""

    def __init__(self, n: int, vocabulary: int, width: int = 12, seed: int = 0, dtype: torch.dtype = torch.float32):
        make = torch.Generator().manual_seed(seed)
        self.head = torch.randn(vocabulary, width, generator=make, dtype=torch.float64) * 0.5
        self.hidden, self.teacher = (torch.randn(n, width, generator=make, dtype=torch.float64) for _ in range(2))
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

    def chunked(self, with_teacher: bool, logits_at_once: int | None = None) -> Tensor:
        teacher = (self.teacher, self.mask, int(self.mask.sum())) if with_teacher else ()
        nll, divergence = token_terms(self.hidden, self.head, self.targets, *teacher, logits_at_once=logits_at_once)
        return self.likelihood(nll) + 0.05 * ratio(divergence, self.mask.sum(), eps=0)

    def likelihood(self, nll: Tensor) -> Tensor:
        omega, kappa, s = (weight.to(nll.dtype) for weight in (self.omega, self.kappa, self.emphasis))
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
    torch.testing.assert_close(one, other, rtol=0, atol=tolerance * max(other.abs().max().item(), 1e-30))


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
def test_it_equals_the_definition(n: int, vocabulary: int, rows: int, with_teacher: bool, seed: int, dtype) -> None:
    """The definition is computed in float64. In float32 p - 1 of a nearly certain token loses digits: the difference is
    held against the terms too, which are as large as the head, not against the small gradient alone."""
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
def test_in_bfloat16_it_is_no_further_from_float64_than_the_definition(with_teacher: bool, seed: int) -> None:
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
    """The reference computes in float64 with the same rounded operands. Logits that were rounded to bfloat16 once made
    ten times too much of it."""
    make = torch.Generator().manual_seed(seed)
    head = (torch.randn(2000, 64, generator=make)).bfloat16()
    states = torch.randn(40, 64, generator=make).bfloat16()
    parent = (states.float() * (1 + 2**-8)).bfloat16()
    targets, mask = torch.randint(0, 2000, (40,), generator=make), torch.ones(40, dtype=torch.bool)
    logits, logits_0 = (operand.double() @ head.double().T for operand in (states, parent))
    assert 20 < logits.abs().max() < 60
    exact = F.kl_div(logits.log_softmax(1), logits_0.log_softmax(1), log_target=True, reduction="none").sum(1)
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
