"""The language-model head and its losses without full logits.

The weights of all terms are known before the logits are, so the gradient with respect to the hidden states can be
formed while a chunk of logits is at hand; nothing of vocabulary size outlives its chunk. The definitions that this
equals are in :mod:`pacer.training.losses`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

#: Logits of a chunk: enough to fill the matrix units.
LOGITS_AT_ONCE = {"cpu": 2**23, "cuda": 2**26}


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
        hidden, head_weight.detach(), targets, weight, teacher, divergence_weight, max(1, limit // len(head_weight))
    )
    return HeadLosses(total, nll, None if teacher is None else divergence)


class _ChunkedHead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        head: Tensor,
        targets: Tensor,
        weight: Tensor,
        teacher: Tensor | None,
        divergence_weight: Tensor | None,
        rows: int,
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
        size = (max(len(part) for part in chunks), len(head))
        room = [torch.empty(size, dtype=wide, device=hidden.device) for _ in range(4 if taught.any() else 2)]
        for part in chunks:
            if len(part) == 0:
                continue
            coefficient = None if divergence_weight is None or not taught[part[0]] else divergence_weight[part]
            logits, own, scale = _softmax(hidden[part], head, room[:2])
            aimed = targets[part].unsqueeze(1)
            nll[part] = (scale - logits.gather(1, aimed)).squeeze(1)
            slope = weight[part].unsqueeze(1)  # of the softmax in the gradient of the logits
            aim = -slope
            if coefficient is not None and teacher is not None:
                difference, known, other = _softmax(teacher[part], head, room[2:])  # the second is p_0
                difference.sub_(logits)
                divergence[part] = torch.linalg.vecdot(known, difference) - (other - scale).squeeze(1)
                slope = slope + coefficient.unsqueeze(1)
                own.mul_(slope).addcmul_(known, coefficient.unsqueeze(1), value=-1)
            else:
                own.mul_(slope)
            if gradient is not None:
                gradient[part] = (own.scatter_add_(1, aimed, aim).to(head.dtype) @ head).to(gradient.dtype)
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


def _softmax(hidden: Tensor, head: Tensor, room: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """[m, d] -> logits and probabilities [m, V] in the first rows of ``room``, and the logits' logsumexp [m, 1].

    Memory is used again from chunk to chunk: fresh pages take longer than the arithmetic.
    """
    logits, probabilities = (tensor[: len(hidden)] for tensor in room)
    if logits.dtype == head.dtype:
        torch.mm(hidden.to(head.dtype), head.T, out=logits)
    else:
        logits.copy_(hidden.to(head.dtype) @ head.T)
    torch.softmax(logits, 1, out=probabilities)
    # the largest probability is exp(0) over the sum
    return logits, probabilities, logits.amax(1, keepdim=True) - probabilities.amax(1, keepdim=True).log()
