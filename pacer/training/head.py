"""The terms of each token at the language model's head, without the logits of all tokens at a time.

A token's terms depend on its own hidden state alone. So autograd forms their gradients while a chunk of logits is at
hand, whatever weights :mod:`pacer.training.losses` gives to the terms afterwards: what outlives a chunk has the sizes
[n] and [n, d], nothing has that of the vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

#: Logits of a chunk: enough to fill the matrix units.
LOGITS_AT_ONCE = {"cpu": 2**22, "cuda": 2**25}


def token_nll(log_p: Tensor, targets: Tensor) -> Tensor:
    """``l = -log p_theta(tau)`` of log-probabilities [n, V] and target ids [n] -> [n]."""
    return -log_p.gather(1, targets.unsqueeze(1)).squeeze(1)


def token_divergence(log_p0: Tensor, log_p: Tensor) -> Tensor:
    """``KL(p_0 || p_theta)`` of log-probabilities [n, V] of parent and model -> [n]."""
    return torch.linalg.vecdot(log_p0.exp(), log_p0 - log_p)


def token_terms(
    hidden: Tensor,
    head_weight: Tensor,
    targets: Tensor,
    teacher: Tensor | None = None,
    omega_cons: Tensor | None = None,
    *,
    logits_at_once: int | None = None,
) -> tuple[Tensor, Tensor]:
    """:func:`token_nll` and :func:`token_divergence` of n predicted tokens, each [n], differentiable in ``hidden``.

    Args:
        hidden: [n, d] last hidden states. head_weight: [V, d], frozen: it gets no gradient. targets: [n] token ids.
        teacher: [n, d] last hidden states of the frozen parent. omega_cons: [n] bool, tokens whose divergence is
            asked for; that of the others, and without a teacher of all, is 0 and costs nothing.
        logits_at_once: upper bound of the logits of a chunk (at least one row; None: by device).
    """
    head = head_weight.detach()
    limit = logits_at_once or LOGITS_AT_ONCE.get(hidden.device.type, LOGITS_AT_ONCE["cuda"])
    size, n = max(1, limit // len(head)), len(hidden)
    groups: list[tuple[Tensor, Tensor | None]] = [(torch.ones(n, dtype=torch.bool, device=hidden.device), None)]
    if teacher is not None and omega_cons is not None:
        groups = [(~omega_cons, None), (omega_cons, teacher)]
    terms = hidden.new_zeros(len(groups), n, dtype=torch.promote_types(head.dtype, torch.float32))
    differentiated = torch.is_grad_enabled() and hidden.requires_grad
    slopes = hidden.new_zeros(*terms.shape, hidden.shape[1], dtype=terms.dtype) if differentiated else None
    for group, taught in groups:
        for rows in group.nonzero().squeeze(1).split(size):
            states, known = hidden[rows].detach(), None if taught is None else taught[rows]
            for place, (term, slope) in enumerate(_chunk(states, head, targets[rows], known, differentiated)):
                terms[place, rows] = term
                if slopes is not None:
                    slopes[place, rows] = slope.to(slopes.dtype)
    if slopes is not None:
        # zeros whose gradient with respect to the hidden states is the slope
        terms = terms + torch.linalg.vecdot(slopes, (hidden - hidden.detach()).to(terms.dtype))
    return terms[0], terms[1] if len(groups) == 2 else torch.zeros_like(terms[0])


def _chunk(
    hidden: Tensor, head: Tensor, targets: Tensor, teacher: Tensor | None, differentiated: bool
) -> list[tuple[Tensor, Tensor]]:
    """The nll and, with a teacher, the divergence of m tokens, each [m] and with its slope [m, d]."""

    def log_probabilities(states: Tensor) -> Tensor:
        logits = states.to(head.dtype) @ head.T
        return F.log_softmax(logits.to(torch.promote_types(head.dtype, torch.float32)), dim=-1)

    with torch.set_grad_enabled(differentiated):
        hidden.requires_grad_(differentiated)
        log_p = log_probabilities(hidden)
        terms = [token_nll(log_p, targets)]
        if teacher is not None:
            terms.append(token_divergence(log_probabilities(teacher.detach()), log_p))
    if not differentiated:
        return [(term, term) for term in terms]
    return [(term.detach(), torch.autograd.grad(term.sum(), hidden, retain_graph=True)[0]) for term in terms]
