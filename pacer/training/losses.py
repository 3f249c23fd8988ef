"""The paper's losses, and their sum on a micro-batch of B samples and T positions; epsilon is the paper's 1e-3.

``denominator``: for a micro-batch that is split over processes, the loss's denominator summed over all of them. Then
the processes' shares add up to the loss of the whole. None: the tensors are the whole micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from pacer.core.contexts import CONTEXTS, availability
from pacer.model.pacer import Batch, Embedded, Pacer
from pacer.training.head import token_terms

EPSILON = 1e-3


@dataclass(frozen=True)
class LossWeights:
    """Weights of the terms of equation (complete-objective), named as in ``params.yaml``.

    Attributes:
        lambda_q: omega on Omega_Q, the commitment's tokens. lambda_tlw: weight of L_TLW.
        lambda_cons: of the divergence from the frozen parent. lambda_drift: of the prefix drift. None: no such term.
    """

    lambda_q: float
    lambda_tlw: float
    lambda_cons: float | None = None
    lambda_drift: float | None = None


def trajectory_loss(
    nll: Tensor, omega: Tensor, kappa: Tensor, eps: float = EPSILON, *, denominator: Tensor | None = None
) -> Tensor:
    """Return the first term of equation (trajectory-objective): ``sum(omega l) / (sum(omega) + sum(kappa) + eps)``.

    Args:
        nll: negative log-likelihoods l, [B, T] or [n] for the n predicted tokens. omega: the same shape; zero where
            nothing is supervised.
        kappa: [B] weight of the ignored BOS. denominator: ``sum(omega) + sum(kappa)``.
    """
    return (omega * nll).sum() / ((omega.sum() + kappa.sum() if denominator is None else denominator) + eps)


def emphasis_loss(nll: Tensor, s: Tensor, eps: float = EPSILON, *, denominator: Tensor | None = None) -> Tensor:
    """Return L_TLW: ``sum(s l) / (sum(s) + eps)``, s [B, T] zero outside the report span. denominator: ``sum(s)``."""
    return (s * nll).sum() / ((s.sum() if denominator is None else denominator) + eps)


def consistency_loss(teacher_logits: Tensor, student_logits: Tensor, mask: Tensor) -> Tensor:
    """Return equation (parent-consistency) from all logits at once: the mean over ``mask`` of ``KL(p_0 || p_theta)``.

    Training never holds all logits: it passes the divergences from the head to :func:`mean_divergence`.

    Args:
        teacher_logits, student_logits: [B, T, V]. mask: [B, T] bool, Omega_cons. An empty mask gives 0.
    """
    log_p0, log_p = (F.log_softmax(at_least_float32(logits[mask]), -1) for logits in (teacher_logits, student_logits))
    return mean_divergence(torch.linalg.vecdot(log_p0.exp(), log_p0 - log_p), mask[mask])


def mean_divergence(divergence: Tensor, omega_cons: Tensor, *, denominator: Tensor | None = None) -> Tensor:
    """Return equation (parent-consistency) from divergences that are zero outside ``omega_cons`` (bool, same shape).

    An empty Omega_cons gives 0. denominator: ``|Omega_cons|``.
    """
    return divergence.sum() / (omega_cons.sum() if denominator is None else denominator).clamp(min=1)


def drift_loss(residual: Tensor, prefix_mask: Tensor, *, denominator: Tensor | None = None) -> Tensor:
    """Return equation (prefix-drift): the mean over valid prefix positions of ``||residual||^2 / d``.

    Args:
        residual: [B, T, d], the gated correction. prefix_mask: m [B, T] bool. denominator: ``sum(m)``.
    """
    squared = at_least_float32(residual).square().mean(-1)
    positions = prefix_mask.sum() if denominator is None else denominator
    return torch.where(prefix_mask, squared, 0).sum() / positions.clamp(min=1)


class Mean(NamedTuple):
    """A value to log, as a sum and a count; both are added up over micro-batches and processes before division."""

    sum: Tensor
    count: Tensor


class Objective(NamedTuple):
    """The loss of a micro-batch. ``total`` is differentiated; ``parts``, this process's shares of the named losses, and
    ``means``, other values to log, have no gradient. ``nll`` [n] of the predicted tokens allows further terms."""

    total: Tensor
    parts: dict[str, Tensor]
    means: dict[str, Mean]
    nll: Tensor


#: Computes the loss of a micro-batch; called like :func:`objective`.
Loss = Callable[..., Objective]


def denominators(batch: Batch) -> Tensor:
    """Return ``sum(omega) + sum(kappa)``, ``sum(s)``, ``|Omega_cons|`` and ``sum(m)``, float64 [4], to be added up over
    the processes that share a micro-batch."""
    assert batch.omega is not None and batch.kappa is not None and batch.s is not None and batch.omega_cons is not None
    sums = [t.sum(dtype=torch.float64) for t in (batch.omega, batch.s, batch.omega_cons, batch.prefix_length)]
    sums[0] = sums[0] + batch.kappa.sum(dtype=torch.float64)
    return torch.stack(sums)


def objective(
    model: Pacer,
    batch: Batch,
    losses: LossWeights,
    *,
    frontal_only: bool = False,
    global_denominators: Tensor | None = None,
) -> Objective:
    """Compute equation (complete-objective), or (trajectory-objective) if ``losses`` or the model lack the other terms.

    With ``lambda_cons`` 0 the frozen parent is not evaluated, and ``parts`` has no consistency.

    Args:
        frontal_only: as in :meth:`Pacer.embed`.
        global_denominators: :func:`denominators` of the micro-batch that ``batch`` is part of; None: it is all.
    """
    assert batch.omega is not None and batch.kappa is not None and batch.s is not None and batch.omega_cons is not None
    below = (denominators(batch) if global_denominators is None else global_denominators).to(batch.omega.dtype)
    embedded = model.embed(batch, frontal_only=frontal_only)
    inputs, gate, residual = model.calibrate(embedded, batch)
    at = batch.predicted
    omega, s, omega_cons, teacher = batch.omega[at], batch.s[at], batch.omega_cons[at], None
    if residual is not None and losses.lambda_cons:
        with torch.no_grad():
            teacher = model.predicting_states(embedded.inputs, batch)
    states = model.predicting_states(inputs, batch)
    nll, divergence = token_terms(states, model.language.lm_head.weight, batch.ids[at], teacher, omega_cons)

    parts = {
        "trajectory": trajectory_loss(nll, omega, batch.kappa, denominator=below[0]),
        "emphasis": emphasis_loss(nll, s, denominator=below[1]),
    }
    total = parts["trajectory"] + losses.lambda_tlw * parts["emphasis"]
    if teacher is not None and losses.lambda_cons:
        parts["consistency"] = mean_divergence(divergence, omega_cons, denominator=below[2])
        total = total + losses.lambda_cons * parts["consistency"]
    if residual is not None and losses.lambda_drift is not None:
        mask = batch.prefix_mask[:, : residual.shape[1]]
        parts["drift"] = drift_loss(residual, mask, denominator=below[3])
        total = total + losses.lambda_drift * parts["drift"]

    means = _depth_weights(embedded)
    if gate is not None:
        means |= {f"gate/{context}": mean for context, mean in _by_context(gate, batch).items()}
    return Objective(total, {name: part.detach() for name, part in parts.items()}, means, nll)


def _depth_weights(embedded: Embedded) -> dict[str, Mean]:
    """Return, over the frontal patches of the records, ``depth_weight/<k>``, the mean weight of depth k, and
    ``depth_favourite/<k>``, the share of patches in which it has the largest weight."""
    weights = embedded.depth_weights.detach()
    count, favourite = weights.new_tensor(len(weights)), weights.argmax(-1)
    means: dict[str, Mean] = {}
    for k in range(weights.shape[-1]):
        means[f"depth_weight/{k}"] = Mean(weights[..., k].mean() * count, count)
        means[f"depth_favourite/{k}"] = Mean((favourite == k).to(weights).mean() * count, count)
    return means


def _by_context(values: Tensor, batch: Batch) -> dict[str, Mean]:
    """Return the means of ``values`` [B] over the records of each context."""
    has_lateral, has_prior = batch.availability.unbind(1)
    means: dict[str, Mean] = {}
    for context in CONTEXTS:
        lateral, prior = availability(context)
        inside = (has_lateral == lateral) & (has_prior == prior)
        means[context] = Mean(torch.where(inside, values.detach(), 0).sum(), inside.sum())
    return means


def at_least_float32(tensor: Tensor) -> Tensor:
    """Convert half precision to float32; float64 stays."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
