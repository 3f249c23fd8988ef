"""The loss terms of each token at the language model's head, without the logits of all tokens at once.

A token's terms depend only on its own hidden state. So their gradients with respect to that state are computed while a
chunk of logits is in memory, before :mod:`pacer.training.losses` weights the terms. Only tensors of size [n] and [n, d]
outlive a chunk, none of the size of the vocabulary.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Number of logits in a chunk: enough to keep the matrix units busy.
LOGITS_AT_ONCE = {"cpu": 2**23, "cuda": 2**26}


def token_terms(
    hidden: Tensor,
    head_weight: Tensor,
    targets: Tensor,
    teacher: Tensor | None = None,
    omega_cons: Tensor | None = None,
    consistent: int = 0,
    *,
    logits_at_once: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return ``l = -log p_theta(tau)`` and ``KL(p_0 || p_theta)`` of n tokens: each [n], differentiable in hidden.

    With logits x and p = softmax(x) the slopes are ``dl/dx = p - onehot(tau)`` and ``dKL/dx = p - p_0``.

    Args:
        hidden: [n, d] last hidden states. head_weight: [V, d], frozen: it gets no gradient. targets: [n] token ids tau.
        teacher: [n, d] last hidden states of the frozen parent, whose distribution is p_0. omega_cons: [n] bool, tokens
            whose divergence is computed, ``consistent`` in number. It is 0, at no cost, for the others, and for all
            tokens without a teacher.
        logits_at_once: maximum number of logits in a chunk (at least one row; None: by device).
    """
    rows = logits_at_once or LOGITS_AT_ONCE.get(hidden.device.type, LOGITS_AT_ONCE["cuda"])
    rows = max(1, rows // len(head_weight))
    groups = [torch.arange(len(hidden), device=hidden.device)]
    if teacher is not None and omega_cons is not None:
        # sorted, because the host knows how many there are, but not where
        groups = list(omega_cons.int().argsort(stable=True).split([len(hidden) - consistent, consistent]))
    return _TokenTerms.apply(hidden, head_weight.detach(), targets, teacher, groups, rows)


class _TokenTerms(torch.autograd.Function):
    """The forward pass keeps the slope of each term, [n, d]; the backward pass only weights and adds them."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor, teacher: Tensor | None, groups: list[Tensor], size: int
    ) -> tuple[Tensor, Tensor]:
        """Return the terms; at most ``size`` tokens at once, those of the second group beside the teacher."""
        n = len(hidden)
        terms = hidden.new_zeros(2, n, dtype=torch.promote_types(head.dtype, torch.float32))
        shape = (len(groups), n, hidden.shape[1])
        slopes = terms.new_zeros(shape) if ctx.needs_input_grad[0] else None
        # reuse memory between chunks: allocating new pages takes longer than the arithmetic
        buffers = [terms.new_empty(min(size, n), len(head)) for _ in range(2 * len(groups))]
        factor = head if head.is_cuda else head.to(terms.dtype)  # what a CPU multiplies (see _logits)
        for group, teacher_states in zip(groups, (None, teacher)):
            for rows in group.split(size):
                logits, p, scale = _softmax(hidden[rows].to(head.dtype), factor, buffers[:2])
                target = targets[rows].unsqueeze(1)
                terms[0, rows] = (scale - logits.gather(1, target)).squeeze(1)
                if teacher_states is not None:
                    logits_0, p_0, scale_0 = _softmax(teacher_states[rows].to(head.dtype), factor, buffers[2:])
                    terms[1, rows] = torch.linalg.vecdot(p_0, logits_0.sub_(logits)) - (scale_0 - scale).squeeze(1)
                    if slopes is not None:
                        slopes[1, rows] = (torch.sub(p, p_0, out=p_0).to(head.dtype) @ head).to(slopes.dtype)
                if slopes is not None:
                    p.scatter_add_(1, target, -torch.ones_like(target, dtype=p.dtype))
                    slopes[0, rows] = (p.to(head.dtype) @ head).to(slopes.dtype)
        ctx.slopes, ctx.dtype = slopes, hidden.dtype
        return terms[0], terms[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the hidden states: each term's slopes times its incoming gradient, added up."""
        weighted = [slope * weight.unsqueeze(1) for slope, weight in zip(ctx.slopes, grad_outputs, strict=False)]
        return sum(weighted[1:], weighted[0]).to(ctx.dtype), None, None, None, None, None


def _softmax(hidden: Tensor, head: Tensor, buffers: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """[m, d] -> logits and probabilities [m, V], in the first rows of the buffers, and the logsumexp [m, 1]."""
    logits, p = (buffer[: len(hidden)] for buffer in buffers)
    _logits(hidden, head, logits)
    torch.softmax(logits, 1, out=p)
    # logsumexp: the largest probability is exp(0) over the sum
    return logits, p, logits.amax(1, keepdim=True) - p.amax(1, keepdim=True).log()


def _logits(hidden: Tensor, head: Tensor, out: Tensor) -> None:
    """Write ``hidden @ head.T`` [m, V] with sums in the type of ``out``, float32 for operands in bfloat16.

    Logits of 20 to 30 have steps of .125 in bfloat16: a divergence of the distributions would be mostly rounding. A GPU
    adds up in float32 and can return that; a CPU cannot, so its operands are converted first, which is exact.
    """
    if hidden.is_cuda and hidden.dtype != out.dtype:
        torch.mm(hidden, head.T, out_dtype=out.dtype, out=out)
    else:
        torch.mm(hidden.to(out.dtype), head.T, out=out)
