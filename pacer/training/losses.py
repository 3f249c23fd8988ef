"""The paper's losses, and their sum on a micro-batch of B samples and n predicted tokens; epsilon is the paper's 1e-3.

A micro-batch may be split over processes. Their losses are divided by the denominators of the whole micro-batch, so
that they add up to its loss.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from pacer.config import Strict
from pacer.core.contexts import CONTEXTS, availability
from pacer.model.batch import Batch, TrainingBatch
from pacer.model.calibrate import PrefixCalibrator
from pacer.model.pacer import Embedded, Pacer
from pacer.training.head import token_terms

EPSILON = 1e-3


@dataclass(frozen=True)
class LossWeights:
    """Weights of the terms of equation (complete-objective), named as in ``params.yaml``.

    Attributes:
        lambda_q: omega on Omega_Q, the commitment's tokens. lambda_tlw: weight of L_TLW.
        lambda_cons: of the divergence from the frozen parent. lambda_drift: of the prefix drift. None: no such term.
    """

    lambda_q: float = 1.0
    lambda_tlw: float = 0.0
    lambda_cons: float | None = None
    lambda_drift: float | None = None


def loss_weights(schedule: Strict, train: Strict) -> LossWeights:
    """Return the weights that are keys of a phase's own group or of the group ``train``."""
    known = train.model_dump() | schedule.model_dump()
    return LossWeights(**{field.name: known[field.name] for field in fields(LossWeights) if field.name in known})


def ratio(terms: Tensor, divisor: Tensor, eps: float = EPSILON) -> Tensor:
    """Return ``sum(terms) / (divisor + eps)``, the form of all losses.

    Weighted negative log-likelihoods give the two terms of equation (trajectory-objective). With ``eps`` 0, divergences
    give equation (parent-consistency) and :func:`drifts` equation (prefix-drift); then the mean of nothing is 0.
    """
    return terms.sum() / (divisor + eps if eps else divisor.clamp(min=1))


def drifts(residual: Tensor, prefix_mask: Tensor) -> Tensor:
    """Return ``||residual||^2 / d`` of each position, 0 outside the prefix: [B, P, d], m [B, P] bool -> [B, P]."""
    return torch.where(prefix_mask, residual.square().mean(-1), 0)


class Computed(NamedTuple):
    """What the terms of a batch, or of a process's share of it, are computed from.

    ``nll`` [n] of the predicted tokens; ``divergence`` [n] from the parent, None if that is not evaluated; ``residual``
    [B, P, d] of the prefix, None without a calibrator; ``embedded`` has the depth weights.
    """

    batch: TrainingBatch
    embedded: Embedded
    nll: Tensor
    divergence: Tensor | None
    residual: Tensor | None


class Term(NamedTuple):
    """A term of the objective: its weight times ``sum(values) / (sum(counted) + eps)``.

    The sum of ``counted`` is over the whole micro-batch, that of ``values`` over a process's share of it. So each value
    must depend on its own sample only, or the shares would not add up to the term.

    Attributes:
        values: of what was computed; None: there is no such term.
        counted: of a batch. weight: field of :class:`LossWeights`; None: 1. eps: as in :func:`ratio`.
    """

    values: Callable[[Computed], Tensor | None]
    counted: Callable[[TrainingBatch], Tensor]
    weight: str | None = None
    eps: float = EPSILON


def _drift(output: Computed) -> Tensor | None:
    return None if output.residual is None else drifts(output.residual, output.batch.prefix_mask)


#: The terms of equation (complete-objective) by name; the first two are (trajectory-objective).
TERMS = {
    "trajectory": Term(
        lambda output: output.batch.omega * output.nll, lambda batch: torch.cat([batch.omega, batch.kappa])
    ),
    "emphasis": Term(lambda output: output.batch.s * output.nll, lambda batch: batch.s, "lambda_tlw"),
    "consistency": Term(lambda output: output.divergence, lambda batch: batch.omega_cons, "lambda_cons", eps=0),
    "drift": Term(_drift, lambda batch: batch.prefix_length, "lambda_drift", eps=0),
}

#: Denominators of the terms of a micro-batch, float64 scalars, to be added up over the processes that share it.
Divisors = tuple[Tensor, ...]


def divisors_of(batch: TrainingBatch) -> Divisors:
    """Return the denominators of a batch, in the order of :data:`TERMS`."""
    return tuple(term.counted(batch).sum(dtype=torch.float64) for term in TERMS.values())


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


def objective(
    model: Pacer,
    batch: TrainingBatch,
    losses: LossWeights,
    *,
    frontal_only: bool = False,
    divisors: Divisors | None = None,
) -> Objective:
    """Compute equation (complete-objective), or (trajectory-objective) if ``losses`` or the model lack the other terms.

    With ``lambda_cons`` 0 the frozen parent is not evaluated, and ``parts`` has no consistency.

    Args:
        frontal_only: as in :meth:`Pacer.embed`.
        divisors: of the micro-batch that ``batch`` is part of; None: it is all.
    """
    embedded, teacher = model.embed(batch, frontal_only=frontal_only), None
    inputs, gate, residual = model.calibrate(embedded, batch)
    if residual is not None and losses.lambda_cons:
        with torch.no_grad():
            teacher = model.predicting_states(embedded.inputs, batch)
    states, compared = model.predicting_states(inputs, batch), (batch.omega_cons, batch.consistent)
    nll, divergence = token_terms(states, model.language.lm_head.weight, batch.targets, teacher, *compared)

    computed = Computed(batch, embedded, nll, None if teacher is None else divergence, residual)
    total, parts = nll.new_zeros(()), {}
    for (name, term), divisor in zip(TERMS.items(), divisors or divisors_of(batch), strict=True):
        weight = 1.0 if term.weight is None else getattr(losses, term.weight)
        values = None if weight is None else term.values(computed)
        if values is not None:
            parts[name] = ratio(values, divisor.to(batch.omega.dtype), term.eps)
            total = total + weight * parts[name]

    means = _depth_weights(embedded) | ({} if gate is None else _gates(gate, batch))
    return Objective(total, {name: part.detach() for name, part in parts.items()}, means, nll)


def _depth_weights(embedded: Embedded) -> dict[str, Tensor]:
    """Return, over the frontal patches of the records, ``depth_weight/<k>``, the mean weight of depth k, and
    ``depth_favourite/<k>``, the share of patches in which it has the largest weight; each as sum and count."""
    weights = embedded.depth_weights["frontal"].detach()
    count, favourite = weights.new_full((), len(weights)), weights.argmax(-1)
    means = {}
    for k in range(weights.shape[-1]):
        means[f"depth_weight/{k}"] = torch.stack([weights[..., k].mean() * count, count])
        means[f"depth_favourite/{k}"] = torch.stack([(favourite == k).to(weights).mean() * count, count])
    return means


def _gates(gate: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return ``gate/<context>``, the means of ``gate`` [B] over the records of each context, as sum and count."""
    means, rows = {}, PrefixCalibrator.row(*batch.availability.long().unbind(1))
    for context in CONTEXTS:
        inside = rows == PrefixCalibrator.row(*availability(context))
        means[f"gate/{context}"] = torch.stack([torch.where(inside, gate.detach(), 0).sum(), inside.sum()])
    return means
