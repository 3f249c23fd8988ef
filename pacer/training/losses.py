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

from pacer.core.contexts import CONTEXTS, availability
from pacer.model.pacer import Batch, Embedded, Pacer, TrainingBatch
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


class Objective(NamedTuple):
    """The loss of a micro-batch, or this process's share of it.

    Attributes:
        total: to be differentiated. parts: shares of the named losses, without gradient.
        means: other values to log, each as a sum and a count [2] float32, without gradient.
        nll: [n] of the predicted tokens, for further terms.
    """

    total: Tensor
    parts: dict[str, Tensor]
    means: dict[str, Tensor]
    nll: Tensor


#: Computes the loss of a micro-batch; called like :func:`objective`.
Loss = Callable[..., Objective]


def denominators(batch: TrainingBatch) -> Tensor:
    """Return ``sum(omega) + sum(kappa)``, ``sum(s)``, ``|Omega_cons|`` and ``sum(m)``, float64 [4], to be added up over
    the processes that share a micro-batch."""
    weights = batch.supervision
    omega, kappa, s, omega_cons, prefix = (
        tensor.sum(dtype=torch.float64)
        for tensor in (weights.omega, weights.kappa, weights.s, weights.omega_cons, batch.prefix_length)
    )
    return torch.stack([omega + kappa, s, omega_cons, prefix])


def objective(
    model: Pacer,
    batch: TrainingBatch,
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
    weights, predicted, teacher = batch.supervision, batch.predicted, None
    omega, s, omega_cons = (tensor[predicted] for tensor in (weights.omega, weights.s, weights.omega_cons))
    divisors = (denominators(batch) if global_denominators is None else global_denominators).to(omega.dtype)
    embedded = model.embed(batch, frontal_only=frontal_only)
    inputs, gate, residual = model.calibrate(embedded, batch)
    if residual is not None and losses.lambda_cons:
        with torch.no_grad():
            teacher = model.predicting_states(embedded.inputs, batch)
    states = model.predicting_states(inputs, batch)
    nll, divergence = token_terms(states, model.language.lm_head.weight, batch.ids[predicted], teacher, omega_cons)

    parts = {
        "trajectory": trajectory_loss(nll, omega, weights.kappa, denominator=divisors[0]),
        "emphasis": emphasis_loss(nll, s, denominator=divisors[1]),
    }
    total = parts["trajectory"] + losses.lambda_tlw * parts["emphasis"]
    if teacher is not None and losses.lambda_cons:
        parts["consistency"] = mean_divergence(divergence, omega_cons, denominator=divisors[2])
        total = total + losses.lambda_cons * parts["consistency"]
    if residual is not None and losses.lambda_drift is not None:
        mask = batch.prefix_mask[:, : residual.shape[1]]
        parts["drift"] = drift_loss(residual, mask, denominator=divisors[3])
        total = total + losses.lambda_drift * parts["drift"]

    means = _depth_weights(embedded) | ({} if gate is None else _gates(gate, batch))
    return Objective(total, {name: part.detach() for name, part in parts.items()}, means, nll)


def _depth_weights(embedded: Embedded) -> dict[str, Tensor]:
    """Return, over the frontal patches of the records, ``depth_weight/<k>``, the mean weight of depth k, and
    ``depth_favourite/<k>``, the share of patches in which it has the largest weight; each as sum and count."""
    weights = embedded.depth_weights["frontal"].detach()
    count, favourite = weights.new_tensor(len(weights)), weights.argmax(-1)
    means = {}
    for k in range(weights.shape[-1]):
        means[f"depth_weight/{k}"] = torch.stack([weights[..., k].mean() * count, count])
        means[f"depth_favourite/{k}"] = torch.stack([(favourite == k).to(weights).mean() * count, count])
    return means


def _gates(gate: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return ``gate/<context>``, the means of ``gate`` [B] over the records of each context, as sum and count."""
    means = {}
    for context in CONTEXTS:
        inside = (batch.availability == batch.availability.new_tensor(availability(context))).all(1)
        means[f"gate/{context}"] = torch.stack([torch.where(inside, gate.detach(), 0).sum(), inside.sum()])
    return means


def at_least_float32(tensor: Tensor) -> Tensor:
    """Convert half precision to float32; float64 stays."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
