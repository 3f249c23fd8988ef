"""The language-model head and its losses without full logits.

The weights of all terms are known before the logits are, so the gradient with respect to the hidden states can be
formed while a chunk of logits is at hand; nothing of vocabulary size outlives its chunk. The definitions that this
equals are in :mod:`pacer.training.losses`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from pacer.training.losses import at_least_float32

#: Logits held at a time: on a CPU a chunk should stay in cache, on a GPU it should fill the matrix units.
LOGITS_AT_ONCE = {"cpu": 2**22, "cuda": 2**26}


class HeadLosses(NamedTuple):
    """``total`` is what is differentiated (with respect to the hidden states alone); ``nll`` [n] and ``divergence``
    [n] (None without a teacher; zero where its weight is zero) are values without a gradient."""

    total: Tensor
    nll: Tensor
    divergence: Tensor | None


def head_losses(
    hidden: Tensor,
    head_weight: Tensor,
    targets: Tensor,
    weight: Tensor,
    teacher: Tensor | None = None,
    divergence_weight: Tensor | None = None,
    *,
    logits_at_once: int | None = None,
) -> HeadLosses:
    """``sum(weight * nll) + sum(divergence_weight * KL(p_0 || p_theta))`` over n predicted tokens.

    Args:
        hidden: [n, d] last hidden states. head_weight: [V, d], frozen: it gets no gradient. targets: [n] token ids.
        weight: [n] coefficient of each negative log-likelihood.
        teacher: [n, d] last hidden states of the frozen parent, whose distribution is p_0.
        divergence_weight: [n] coefficient of each divergence; rows with zero are not computed.
        logits_at_once: upper bound of the logits that exist at a time (at least one row; None: by device).
    """
    if teacher is not None and divergence_weight is None:
        raise ValueError("a teacher needs divergence_weight")
    limit = logits_at_once or LOGITS_AT_ONCE.get(hidden.device.type, LOGITS_AT_ONCE["cuda"])
    total, nll, divergence = _ChunkedHead.apply(  # type: ignore[misc]
        hidden, head_weight.detach(), targets, weight, teacher, divergence_weight,
        max(1, limit // len(head_weight)),
    )
    return HeadLosses(total, nll, None if teacher is None else divergence)


class _ChunkedHead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor, weight: Tensor, teacher: Tensor | None,
        divergence_weight: Tensor | None, rows: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        wide = torch.promote_types(head.dtype, torch.float32)
        nll = torch.empty(len(hidden), dtype=wide, device=hidden.device)
        divergence = torch.zeros_like(nll)
        gradient = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        weight = weight.to(wide)
        taught = torch.zeros(len(hidden), dtype=torch.bool, device=hidden.device)
        if divergence_weight is not None:
            divergence_weight = divergence_weight.to(wide)
            taught = divergence_weight != 0
        chunks = [*(~taught).nonzero().squeeze(1).split(rows), *taught.nonzero().squeeze(1).split(rows)]
        with torch.autocast(hidden.device.type, enabled=False):
            for part in chunks:
                if len(part) == 0:
                    continue
                coefficient = None if divergence_weight is None or not taught[part[0]] else divergence_weight[part]
                own = _log_probabilities(hidden[part], head)
                aimed = targets[part].unsqueeze(1)
                nll[part] = -own.gather(1, aimed).squeeze(1)
                slope = weight[part].unsqueeze(1)  # of the softmax in the gradient of the logits
                aim, pull = -slope, None
                if coefficient is not None and teacher is not None:
                    difference = _log_probabilities(teacher[part], head)
                    pull = difference.exp()  # p_0
                    divergence[part] = difference.sub_(own).mul_(pull).sum(1)
                    del difference
                    slope = slope + coefficient.unsqueeze(1)
                    pull = pull.mul_(coefficient.unsqueeze(1))
                if gradient is None:
                    continue
                logit_gradient = own.exp_().mul_(slope)
                if pull is not None:
                    logit_gradient -= pull
                logit_gradient.scatter_add_(1, aimed, aim)
                gradient[part] = (logit_gradient.to(head.dtype) @ head).to(gradient.dtype)
        total = (weight * nll).sum()
        if divergence_weight is not None:
            total = total + (divergence_weight * divergence).sum()
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(nll, divergence)
        return total, nll, divergence

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return (outer[0].to(gradient.dtype) * gradient, *[None] * 6)


def _log_probabilities(hidden: Tensor, head: Tensor) -> Tensor:
    """[m, d] -> [m, V], at least in float32, in memory of its own."""
    logits = at_least_float32(hidden.to(head.dtype) @ head.T)
    return logits.sub_(logits.logsumexp(1, keepdim=True))
