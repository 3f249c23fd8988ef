"""The paper's losses as plain functions of tensors: the definition that faster forms are tested against.

All are taken over one micro-batch of B samples and T target positions; epsilon is the paper's 1e-3.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

EPSILON = 1e-3


@dataclass(frozen=True)
class LossWeights:
    """Weights of the terms of equation (complete-objective), named as in ``params.yaml``.

    Attributes:
        lambda_q: omega on Omega_Q, the commitment's tokens. lambda_tlw: of L_TLW.
        lambda_cons: of the divergence from the frozen parent, lambda_drift: of the prefix's drift; None: not a term.
    """

    lambda_q: float
    lambda_tlw: float
    lambda_cons: float | None = None
    lambda_drift: float | None = None


def trajectory_loss(nll: Tensor, weight: Tensor, kappa: Tensor, eps: float = EPSILON) -> Tensor:
    """First term of equation (trajectory-objective): ``sum(w l) / (sum(w) + sum(kappa) + eps)``.

    Args:
        nll: [B, T] negative log-likelihoods l. weight: [B, T] omega, zero where nothing is supervised.
        kappa: [B] weight of the ignored BOS.
    """
    return (weight * nll).sum() / (weight.sum() + kappa.sum() + eps)


def emphasis_loss(nll: Tensor, emphasis: Tensor, eps: float = EPSILON) -> Tensor:
    """L_TLW: ``sum(s l) / (sum(s) + eps)`` with s [B, T] zero outside the report span."""
    return (emphasis * nll).sum() / (emphasis.sum() + eps)


def consistency_loss(teacher_logits: Tensor, student_logits: Tensor, mask: Tensor) -> Tensor:
    """Equation (parent-consistency): mean over masked positions of ``KL(p_0 || p_theta)``.

    Args:
        teacher_logits, student_logits: [B, T, V]. mask: [B, T] bool, Omega_cons. An empty mask gives 0.
    """
    teacher = F.log_softmax(at_least_float32(teacher_logits[mask]), dim=-1)
    student = F.log_softmax(at_least_float32(student_logits[mask]), dim=-1)
    divergence = F.kl_div(student, teacher, reduction="none", log_target=True).sum(-1)
    return divergence.sum() / max(divergence.numel(), 1)


def drift_loss(residual: Tensor, prefix_mask: Tensor) -> Tensor:
    """Equation (prefix-drift): mean over valid prefix positions of ``||residual||^2 / d``.

    Args:
        residual: [B, T, d], the gated correction. prefix_mask: [B, T] bool.
    """
    squared = at_least_float32(residual).square().mean(-1)
    return torch.where(prefix_mask, squared, 0).sum() / prefix_mask.sum().clamp(min=1)


def at_least_float32(tensor: Tensor) -> Tensor:
    """Half precision is widened; float64 stays."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
