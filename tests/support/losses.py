"""Equations of the paper over logits of all tokens at once, which training never holds."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pacer.training.losses import at_least_float32, mean_divergence


def consistency_loss(teacher_logits: Tensor, student_logits: Tensor, mask: Tensor) -> Tensor:
    """Equation (parent-consistency): the mean over ``mask`` of ``KL(p_0 || p_theta)``; an empty mask gives 0.

    Args:
        teacher_logits, student_logits: [B, T, V]. mask: [B, T] bool, Omega_cons.
    """
    log_p0, log_p = (F.log_softmax(at_least_float32(logits[mask]), -1) for logits in (teacher_logits, student_logits))
    return mean_divergence(torch.linalg.vecdot(log_p0.exp(), log_p0 - log_p), mask[mask])
