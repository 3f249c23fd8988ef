from __future__ import annotations

import pytest
import torch

from pacer.training.losses import consistency_loss, drift_loss, emphasis_loss, trajectory_loss


def test_trajectory_loss_by_hand() -> None:
    """Two samples, one commitment-first with lambda_Q = 0.5: BOS stays in the denominator with its kappa."""
    nll = torch.tensor([[2.0, 4.0, 1.0], [3.0, 1.0, 9.0]])
    weight = torch.tensor([[0.5, 1.0, 1.0], [1.0, 1.0, 0.0]])
    kappa = torch.tensor([0.5, 1.0])
    expected = (0.5 * 2 + 4 + 1 + 3 + 1) / (0.5 + 1 + 1 + 1 + 1 + 0.5 + 1.0 + 1e-3)
    assert trajectory_loss(nll, weight, kappa).item() == pytest.approx(expected)


def test_emphasis_loss_by_hand_and_without_any_emphasis() -> None:
    nll = torch.tensor([[2.0, 4.0], [3.0, 1.0]])
    assert emphasis_loss(nll, torch.tensor([[0.0, 1.0], [1.0, 0.0]])).item() == pytest.approx(7 / 2.001)
    assert emphasis_loss(nll, torch.zeros(2, 2)).item() == 0.0


def test_consistency_is_the_kl_from_teacher_to_student() -> None:
    torch.manual_seed(0)
    teacher, student = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    mask = torch.tensor([[True, False, True], [False, False, True]])
    p, q = teacher.softmax(-1).double(), student.softmax(-1).double()
    expected = (p * (p / q).log()).sum(-1)[mask].mean()
    assert consistency_loss(teacher, student, mask).item() == pytest.approx(expected.item(), rel=1e-5)
    assert consistency_loss(teacher, teacher, mask).item() == pytest.approx(0, abs=1e-6)
    assert consistency_loss(teacher, student, torch.zeros_like(mask)).item() == 0.0


def test_drift_counts_valid_prefix_positions_alone() -> None:
    residual = torch.tensor([[[1.0, 1.0], [2.0, 0.0]], [[3.0, 3.0], [9.0, 9.0]]])
    mask = torch.tensor([[True, True], [True, False]])
    assert drift_loss(residual, mask).item() == pytest.approx((1 + 2 + 9) / 3)
