"""The phase's loss on one micro-batch, with denominators taken over all processes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from pacer.model.pacer import Batch, Pacer
from pacer.training.losses import (
    EPSILON,
    at_least_float32,
    consistency_loss,
    drift_loss,
    emphasis_loss,
    trajectory_loss,
)


class Reducer(Protocol):
    """Adds a tensor up over all processes (``accelerate.Accelerator``, or :class:`Alone`)."""

    def reduce(self, tensor: Tensor, reduction: str) -> Tensor: ...


class Alone:
    """The reducer of a process that has the whole batch."""

    def reduce(self, tensor: Tensor, reduction: str) -> Tensor:
        return tensor


class Objective(NamedTuple):
    """``total`` is what is differentiated; ``parts`` are this process's shares of the named losses (their sum over
    processes is the loss of the whole micro-batch); ``gate`` [B] or None; ``depth_weights`` [K] mean over patches."""

    total: Tensor
    parts: dict[str, Tensor]
    gate: Tensor | None
    depth_weights: Tensor


def objective(
    model: Pacer,
    batch: Batch,
    processes: Reducer,
    *,
    warmup: bool,
    regularised: bool,
    lambda_tlw: float,
    lambda_cons: float = 0.0,
    lambda_drift: float = 0.0,
) -> Objective:
    """Equation (complete-objective) where ``regularised``, else equation (trajectory-objective)."""
    assert batch.weight is not None and batch.emphasis is not None
    assert batch.kappa is not None and batch.consistency is not None
    embedded = model.embed(batch, warmup=warmup)
    inputs, gate, residual = model.calibrate(embedded, batch)
    logits = model.target_logits(model.hidden(inputs), batch)
    predicted = batch.predicted
    nll = F.cross_entropy(at_least_float32(logits), batch.ids[predicted], reduction="none")
    weight, emphasis = batch.weight[predicted], batch.emphasis[predicted]
    mask = batch.consistency[predicted]

    counts = torch.stack([weight.sum() + batch.kappa.sum(), emphasis.sum(), mask.sum(), batch.prefix_mask.sum()])
    # each mean becomes this process's share of the mean over all processes: its denominator over everybody's, with the
    # stabiliser (and the 1 of an empty mask) in each once
    epsilon = counts.new_tensor([EPSILON, EPSILON, 0, 0])
    least = counts.new_tensor([0, 0, 1, 1])
    everybody = processes.reduce(counts, reduction="sum")
    shares = (counts + epsilon).clamp(min=least) / (everybody + epsilon).clamp(min=least)
    parts = {
        "trajectory": trajectory_loss(nll, weight, batch.kappa) * shares[0],
        "emphasis": emphasis_loss(nll, emphasis) * shares[1],
    }
    total = parts["trajectory"] + lambda_tlw * parts["emphasis"]
    if regularised and residual is not None:
        with torch.no_grad():
            teacher = model.target_logits(model.hidden(embedded.inputs), batch)
        parts["consistency"] = consistency_loss(teacher, logits, mask) * shares[2]
        parts["drift"] = drift_loss(residual, batch.prefix_mask[:, : residual.shape[1]]) * shares[3]
        total = total + lambda_cons * parts["consistency"] + lambda_drift * parts["drift"]
    return Objective(total, parts, gate, embedded.depth_weights.detach().mean((0, 1)))
