"""The phase's loss on one micro-batch, with denominators taken over all processes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pacer.core.contexts import CONTEXTS
from pacer.model.pacer import Batch, Embedded, Pacer
from pacer.training.head import head_losses
from pacer.training.losses import EPSILON, LossWeights, drift_loss


class Mean(NamedTuple):
    """A value to log: a sum and the count that it is divided by, both added up over micro-batches and processes."""

    sum: Tensor
    count: Tensor


class Objective(NamedTuple):
    """``total`` is what is differentiated; ``parts`` are this process's shares of the named losses (their sum over
    processes is the loss of the whole micro-batch) and ``means`` what else is logged, both without a gradient."""

    total: Tensor
    parts: dict[str, Tensor]
    means: dict[str, Mean]


class Targets(NamedTuple):
    """Ids, omega, s and Omega_cons of the n predicted tokens, each [n], and kappa [B]."""

    ids: Tensor
    weight: Tensor
    emphasis: Tensor
    consistency: Tensor
    kappa: Tensor

    @classmethod
    def of(cls, batch: Batch) -> Targets:
        """The predicted tokens of a batch, in row-major order."""
        assert batch.weight is not None and batch.emphasis is not None
        assert batch.kappa is not None and batch.consistency is not None
        at = batch.predicted
        return cls(batch.ids[at], batch.weight[at], batch.emphasis[at], batch.consistency[at], batch.kappa)


def denominators(batch: Batch) -> Tensor:
    """What the means of a micro-batch are taken over: ``sum(omega) + sum(kappa)``, ``sum(s)``, ``|Omega_cons|`` and
    ``sum(m)``, float64 [4]. Shares of several processes add up."""
    _, weight, emphasis, consistency, kappa = Targets.of(batch)
    return torch.stack(
        [t.sum(dtype=torch.float64) for t in (torch.cat([weight, kappa]), emphasis, consistency, batch.prefix_length)]
    )


def objective(
    model: Pacer, batch: Batch, losses: LossWeights, *, bare: bool = False, whole: Tensor | None = None
) -> Objective:
    """Equation (complete-objective), or (trajectory-objective) where ``losses`` or the model have no more terms.

    With ``lambda_cons`` 0 the frozen parent is not evaluated and ``parts`` has no consistency.

    Args:
        whole: :func:`denominators` of the whole micro-batch, of which ``batch`` is a part; None: it is the whole.
    """
    own = denominators(batch)
    supervised, emphasised, constrained, prefix = own if whole is None else whole
    embedded = model.embed(batch, bare=bare)
    inputs, gate, residual = model.calibrate(embedded, batch)
    targets = Targets.of(batch)
    scaled = {
        "trajectory": targets.weight / (supervised + EPSILON),
        "emphasis": targets.emphasis / (emphasised + EPSILON),
    }
    coefficient = scaled["trajectory"] + losses.lambda_tlw * scaled["emphasis"]
    teacher = share = None
    if residual is not None and losses.lambda_cons:
        with torch.no_grad():
            teacher = model.target_hidden(model.hidden(embedded.inputs, batch.predicting), batch)
        share = targets.consistency.to(targets.weight.dtype) / constrained.clamp(min=1)
    total, nll, divergence = head_losses(
        model.target_hidden(model.hidden(inputs, batch.predicting), batch),
        model.language.lm_head.weight,
        targets.ids,
        coefficient,
        teacher,
        None if share is None else share * losses.lambda_cons,
    )
    parts = {name: (own_weight * nll).sum() for name, own_weight in scaled.items()}
    if share is not None and divergence is not None:
        parts["consistency"] = (share * divergence).sum()
    if residual is not None and losses.lambda_drift is not None:
        drift = drift_loss(residual, batch.prefix_mask[:, : residual.shape[1]]) * own[3] / prefix
        parts["drift"] = drift.detach()
        total = total + losses.lambda_drift * drift
    means = depth_weights(embedded)
    if gate is not None:
        means |= {f"gate/{context}": mean for context, mean in by_context(gate, batch).items()}
    return Objective(total, parts, means)


def depth_weights(embedded: Embedded) -> dict[str, Mean]:
    """``depth_weight/<k>``: mean over patches and records."""
    weights = embedded.depth_weights.detach()
    count = weights.new_tensor(len(weights))
    return {f"depth_weight/{k}": Mean(mean * count, count) for k, mean in enumerate(weights.mean((0, 1)))}


def by_context(values: Tensor, batch: Batch) -> dict[str, Mean]:
    """Means of ``values`` [B] over the records of each context."""
    places = batch.availability.long() @ batch.availability.new_tensor([2, 1], dtype=torch.long)
    means: dict[str, Mean] = {}
    for place, context in enumerate(CONTEXTS):
        inside = places == place
        means[context] = Mean(torch.where(inside, values.detach(), 0).sum(), inside.sum())
    return means


def target_nll(model: Pacer, batch: Batch, *, bare: bool) -> tuple[Tensor, Tensor]:
    """What a validation loss is made of: ``sum(omega l)`` and ``sum(s l)`` as float64 [2], and :func:`denominators`."""
    inputs, _, _ = model.calibrate(model.embed(batch, bare=bare), batch)
    targets = Targets.of(batch)
    nll = head_losses(
        model.target_hidden(model.hidden(inputs, batch.predicting), batch),
        model.language.lm_head.weight,
        targets.ids,
        targets.weight,
    ).nll.double()
    return torch.stack([(targets.weight * nll).sum(), (targets.emphasis * nll).sum()]), denominators(batch)
