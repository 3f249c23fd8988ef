"""The phase's loss on one micro-batch, with denominators taken over all processes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pacer.model.pacer import Batch, Pacer
from pacer.training.head import head_losses
from pacer.training.losses import EPSILON, drift_loss


class Objective(NamedTuple):
    """``total`` is what is differentiated; ``parts`` are this process's shares of the named losses (their sum over
    processes is the loss of the whole micro-batch), without a gradient; ``gate`` [B] or None; ``depth_weights`` [K]
    mean over patches, or None where no image was routed; ``shares`` [B, 3] of frontal, lateral and prior in a mixture
    of sources, or None where there is none."""

    total: Tensor
    parts: dict[str, Tensor]
    gate: Tensor | None
    depth_weights: Tensor | None
    shares: Tensor | None = None


class _Targets(NamedTuple):
    """Ids, omega, s and Omega_cons of the n predicted tokens, each [n], and kappa [B]."""

    ids: Tensor
    weight: Tensor
    emphasis: Tensor
    consistency: Tensor
    kappa: Tensor


def _targets(batch: Batch) -> _Targets:
    assert batch.weight is not None and batch.emphasis is not None
    assert batch.kappa is not None and batch.consistency is not None
    at = batch.predicted
    return _Targets(batch.ids[at], batch.weight[at], batch.emphasis[at], batch.consistency[at], batch.kappa)


def denominators(batch: Batch) -> Tensor:
    """What the means of a micro-batch are taken over: ``sum(omega) + sum(kappa)``, ``sum(s)``, ``|Omega_cons|`` and
    ``sum(m)``, float64 [4]. Shares of several processes add up."""
    _, weight, emphasis, consistency, kappa = _targets(batch)
    return torch.stack(
        [t.sum(dtype=torch.float64) for t in (torch.cat([weight, kappa]), emphasis, consistency, batch.prefix_length)]
    )


def objective(
    model: Pacer,
    batch: Batch,
    *,
    warmup: bool,
    regularised: bool,
    lambda_tlw: float,
    lambda_cons: float = 0.0,
    lambda_drift: float = 0.0,
    everybody: Tensor | None = None,
) -> Objective:
    """Equation (complete-objective) where ``regularised``, else equation (trajectory-objective).

    With ``lambda_cons`` 0 the frozen parent is not asked and ``parts`` has no consistency.

    Args:
        everybody: :func:`denominators` of the whole micro-batch, of which ``batch`` is a part; None: it is the whole.
    """
    own = denominators(batch)
    supervised, emphasised, constrained, prefix = own if everybody is None else everybody
    embedded = model.embed(batch, warmup=warmup)
    inputs, gate, residual = model.calibrate(embedded, batch)
    targets = _targets(batch)
    scaled = {
        "trajectory": targets.weight / (supervised + EPSILON),
        "emphasis": targets.emphasis / (emphasised + EPSILON),
    }
    coefficient = scaled["trajectory"] + lambda_tlw * scaled["emphasis"]
    teacher = share = None
    if regularised and lambda_cons > 0 and residual is not None:
        with torch.no_grad():
            teacher = model.target_hidden(model.hidden(embedded.inputs, batch.predicting), batch)
        share = targets.consistency.to(targets.weight.dtype) / constrained.clamp(min=1)
    total, nll, divergence = head_losses(
        model.target_hidden(model.hidden(inputs, batch.predicting), batch),
        model.language.lm_head.weight,
        targets.ids,
        coefficient,
        teacher,
        None if share is None else share.mul(lambda_cons),
    )
    parts = {name: (own_weight * nll).sum() for name, own_weight in scaled.items()}
    if share is not None and divergence is not None:
        parts["consistency"] = (share * divergence).sum()
    if regularised and residual is not None:
        drift = drift_loss(residual, batch.prefix_mask[:, : residual.shape[1]]) * own[3] / prefix
        parts["drift"] = drift.detach()
        total = total + lambda_drift * drift
    weights = None if embedded.depth_weights is None else embedded.depth_weights.detach().mean((0, 1))
    return Objective(total, parts, gate, weights)


def target_nll(model: Pacer, batch: Batch, *, warmup: bool) -> tuple[Tensor, Tensor]:
    """What a validation loss is made of: ``sum(omega l)`` and ``sum(s l)`` as float64 [2], and :func:`denominators`."""
    inputs, _, _ = model.calibrate(model.embed(batch, warmup=warmup), batch)
    targets = _targets(batch)
    nll = head_losses(
        model.target_hidden(model.hidden(inputs, batch.predicting), batch),
        model.language.lm_head.weight,
        targets.ids,
        targets.weight,
    ).nll.double()
    return torch.stack([(targets.weight * nll).sum(), (targets.emphasis * nll).sum()]), denominators(batch)
