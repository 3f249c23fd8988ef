"""The paper's losses, and their sum on a micro-batch of B samples and n predicted tokens; epsilon
is the paper's 1e-3.

The logits of all tokens would not fit into memory, so the terms of each token are computed in
chunks. A term depends only on the token's own hidden state. So its gradient with respect to that
state is computed while the chunk's logits are in memory, before the terms are weighted. After a
chunk only tensors of size [n] and [n, d] remain, none of the size of the vocabulary.

A micro-batch may be split over processes. Their losses are divided by the denominators of the whole
micro-batch, so that they add up to its loss.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pacer.core.contexts import CONTEXTS, availability
from pacer.model.batch import Batch, TrainingBatch
from pacer.model.calibrate import PrefixCalibrator
from pacer.model.pacer import Embedded, Pacer

#: Number of logits in a chunk: enough to keep the matrix units busy.
LOGITS_AT_ONCE = {"cpu": 2**23, "cuda": 2**26}


def token_terms(
    hidden: Tensor,
    head_weight: Tensor,
    targets: Tensor,
    teacher: Tensor | None = None,
    omega_cons: Tensor | None = None,
    consistent: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return ``l = -log p_theta(tau)`` and ``KL(p_0 || p_theta)`` of n tokens: each [n],
    differentiable in hidden.

    With logits x and p = softmax(x) the slopes are ``dl/dx = p - onehot(tau)`` and ``dKL/dx = p -
    p_0``.

    Args:
        hidden: [n, d] last hidden states.
        head_weight: [V, d], frozen: it gets no gradient.
        targets: [n] token ids tau.
        teacher: [n, d] last hidden states of the frozen parent, whose distribution is p_0.
        omega_cons: [n] bool, tokens whose divergence is computed, ``consistent`` in number. It is
            0, at no cost, for the others, and for all tokens without a teacher.
    """
    at_once = LOGITS_AT_ONCE.get(hidden.device.type, LOGITS_AT_ONCE["cuda"])
    size = max(1, at_once // len(head_weight))
    groups = [(torch.arange(len(hidden), device=hidden.device), None)]
    if teacher is not None and omega_cons is not None:
        # sorted, because the host knows the number of these tokens, but not their places
        by_group = omega_cons.int().argsort(stable=True)
        others, compared = by_group.split([len(hidden) - consistent, consistent])
        groups = [(others, None), (compared, teacher)]
    return _TokenTerms.apply(hidden, head_weight.detach(), targets, groups, size)


class _TokenTerms(torch.autograd.Function):
    """The terms of tokens. The forward pass keeps the slope of each term, [n, d]; the backward pass
    only multiplies the slopes by the incoming gradients and adds them up."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        head: Tensor,
        targets: Tensor,
        groups: list[tuple[Tensor, Tensor | None]],
        size: int,
    ) -> tuple[Tensor, Tensor]:
        """Return the terms; ``groups``: places of tokens, and the teacher with which they are
        compared, if any. At most ``size`` tokens are computed at once."""
        n = len(hidden)
        kinds = len(groups)  # without a teacher only the likelihood, with one the divergence, too
        terms = hidden.new_zeros(2, n, dtype=torch.promote_types(head.dtype, torch.float32))
        shape = (kinds, n, hidden.shape[1])
        slopes = terms.new_zeros(shape) if ctx.needs_input_grad[0] else None
        # reuse memory between chunks: allocating new pages takes longer than the arithmetic
        buffers = [terms.new_empty(min(size, n), len(head)) for _ in range(2 * kinds)]
        # the head in the type in which a CPU multiplies (see _logits)
        factor = head if head.is_cuda else head.to(terms.dtype)
        for group, teacher in groups:
            for rows in group.split(size):
                logits, p, logsumexp = _softmax(hidden[rows].to(head.dtype), factor, buffers[:2])
                target = targets[rows].unsqueeze(1)
                terms[0, rows] = (logsumexp - logits.gather(1, target)).squeeze(1)
                if teacher is not None:
                    # KL = sum p_0 (log p_0 - log p), with log p = logits - logsumexp
                    logits_0, p_0, logsumexp_0 = _softmax(
                        teacher[rows].to(head.dtype), factor, buffers[2:]
                    )
                    terms[1, rows] = torch.linalg.vecdot(p_0, logits_0.sub_(logits)) - (
                        logsumexp_0 - logsumexp
                    ).squeeze(1)
                    if slopes is not None:
                        slopes[1, rows] = (torch.sub(p, p_0, out=p_0).to(head.dtype) @ head).to(
                            slopes.dtype
                        )
                if slopes is not None:
                    p.scatter_add_(1, target, -torch.ones_like(target, dtype=p.dtype))
                    slopes[0, rows] = (p.to(head.dtype) @ head).to(slopes.dtype)
        ctx.slopes = slopes
        ctx.dtype = hidden.dtype
        return terms[0], terms[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the hidden states: each term's slopes times its incoming gradient,
        added up."""
        weighted = [
            slope * weight.unsqueeze(1)
            for slope, weight in zip(ctx.slopes, grad_outputs[: len(ctx.slopes)], strict=True)
        ]
        return sum(weighted[1:], weighted[0]).to(ctx.dtype), None, None, None, None


def _softmax(hidden: Tensor, head: Tensor, buffers: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """[m, d] -> logits and probabilities [m, V], in the first rows of the buffers, and the
    logsumexp [m, 1]."""
    logits, p = (buffer[: len(hidden)] for buffer in buffers)
    _logits(hidden, head, logits)
    torch.softmax(logits, 1, out=p)
    # logsumexp: the largest probability is exp(0) over the sum
    return logits, p, logits.amax(1, keepdim=True) - p.amax(1, keepdim=True).log()


def _logits(hidden: Tensor, head: Tensor, out: Tensor) -> None:
    """Write ``hidden @ head.T`` [m, V] with sums in the type of ``out``, float32 for operands in
    bfloat16.

    Logits of 20 to 30 have steps of 0.125 in bfloat16, so a divergence of the distributions would
    be mostly rounding error. A GPU accumulates in float32 and can return that; a CPU cannot, so its
    operands are converted first, which is exact.
    """
    if hidden.is_cuda and hidden.dtype != out.dtype:
        torch.mm(hidden, head.T, out_dtype=out.dtype, out=out)
    else:
        torch.mm(hidden.to(out.dtype), head.T, out=out)


EPSILON = 1e-3


@dataclass(frozen=True)
class LossWeights:
    """Weights of equation (complete-objective), named as in ``params.yaml``, from which
    ``phase_of`` takes them."""

    #: omega on Omega_Q, the commitment's tokens. Not read here: batches are built with it.
    lambda_q: float = 1.0
    #: Weight of L_TLW.
    lambda_tlw: float = 0.0
    #: Weight of the divergence from the frozen parent; None: no such term.
    lambda_cons: float | None = None
    #: Weight of the prefix drift; None: no such term.
    lambda_drift: float | None = None


def ratio(terms: Tensor, divisor: Tensor, eps: float = EPSILON) -> Tensor:
    """Return ``sum(terms) / (divisor + eps)``, the form of all losses.

    Weighted negative log-likelihoods give the two terms of equation (trajectory-objective). With
    ``eps`` 0, divergences give equation (parent-consistency) and :func:`drifts` equation
    (prefix-drift); then the mean of nothing is 0.
    """
    return terms.sum() / (divisor + eps if eps else divisor.clamp(min=1))


def drifts(residual: Tensor, prefix_mask: Tensor) -> Tensor:
    """Return ``||residual||^2 / d`` of each position, 0 outside the prefix: [B, P, d], m [B, P]
    bool -> [B, P]."""
    return torch.where(prefix_mask, residual.square().mean(-1), 0)


class Computed(NamedTuple):
    """The values from which the terms of a batch, or of a process's share of it, are computed."""

    batch: TrainingBatch
    embedded: Embedded
    #: [B]; None without a calibrator.
    gate: Tensor | None
    #: [B, P, d], of the prefix; None without a calibrator.
    residual: Tensor | None
    #: [n], negative log-likelihoods of the predicted tokens.
    nll: Tensor
    #: [n], divergences from the parent; None if the parent is not evaluated.
    divergence: Tensor | None


class Term(NamedTuple):
    """A term of the objective: its weight times the :func:`ratio` of the sums of ``values`` and of
    ``counted``.

    The sum of ``counted`` is over the whole micro-batch, that of ``values`` over a process's share
    of it. So each value must depend on its own sample only, or the shares would not add up to the
    term.

    Attributes:
        values: of what was computed; None: there is no such term.
        counted: of a batch.
        weight: of the term; None: there is no such term.
        eps: as in :func:`ratio`.
    """

    values: Callable[[Computed], Tensor | None]
    counted: Callable[[TrainingBatch], Tensor]
    weight: Callable[[LossWeights], float | None]
    eps: float = EPSILON

    def divisor(self, batch: TrainingBatch) -> Tensor:
        """Return the denominator of a batch without ``eps``, a float64 scalar. Those of processes
        that share a micro-batch are added up."""
        return self.counted(batch).sum(dtype=torch.float64)


def _drift(output: Computed) -> Tensor | None:
    return None if output.residual is None else drifts(output.residual, output.batch.prefix_mask)


#: The terms of equation (complete-objective) by name.
TERMS = {
    "trajectory": Term(
        values=lambda output: output.batch.omega * output.nll,
        counted=lambda batch: torch.cat([batch.omega, batch.kappa]),
        weight=lambda losses: 1.0,
    ),
    "emphasis": Term(
        values=lambda output: output.batch.s * output.nll,
        counted=lambda batch: batch.s,
        weight=lambda losses: losses.lambda_tlw,
    ),
    "consistency": Term(
        values=lambda output: output.divergence,
        counted=lambda batch: batch.omega_cons,
        weight=lambda losses: losses.lambda_cons,
        eps=0,
    ),
    "drift": Term(
        values=_drift,
        counted=lambda batch: batch.prefix_length,
        weight=lambda losses: losses.lambda_drift,
        eps=0,
    ),
}

#: The denominators of a micro-batch's terms, by name.
Divisors = Mapping[str, Tensor]


def divisors_of(batch: TrainingBatch) -> Divisors:
    """Return the denominators of a batch's terms."""
    return {name: term.divisor(batch) for name, term in TERMS.items()}


class Objective(NamedTuple):
    """The loss of a micro-batch, or this process's share of it.

    Attributes:
        total: to be differentiated.
        parts: shares of the named losses, not weighted, without gradient.
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
    """Compute equation (complete-objective), or (trajectory-objective) if ``losses`` or the model
    lack the other terms.

    Args:
        frontal_only: as in :meth:`Pacer.embed`.
        divisors: of the micro-batch that ``batch`` is part of; None: it is all.
    """
    computed = compute(model, batch, losses, frontal_only=frontal_only)
    divisors = divisors or divisors_of(batch)
    total = computed.nll.new_zeros(())
    parts = {}
    for name, term in TERMS.items():
        weight = term.weight(losses)
        values = None if weight is None else term.values(computed)
        if weight is not None and values is not None:
            parts[name] = ratio(values, divisors[name].to(batch.omega.dtype), term.eps)
            total = total + weight * parts[name]

    means = _depth_weights(computed.embedded)
    if computed.gate is not None:
        means |= _gates(computed.gate, batch)
    parts = {name: part.detach() for name, part in parts.items()}
    return Objective(total, parts, means, computed.nll)


def compute(
    model: Pacer, batch: TrainingBatch, losses: LossWeights, *, frontal_only: bool = False
) -> Computed:
    """Run the model on a batch, and the frozen parent if there is a calibrator and ``lambda_cons``
    is above 0."""
    embedded = model.embed(batch, frontal_only=frontal_only)
    inputs, gate, residual = model.calibrate(embedded, batch)
    teacher = None
    if residual is not None and losses.lambda_cons:
        with torch.no_grad():
            teacher = model.predicting_states(embedded.inputs, batch)
    nll, divergence = token_terms(
        model.predicting_states(inputs, batch),
        model.language.lm_head.weight,
        batch.targets,
        teacher,
        batch.omega_cons,
        batch.consistent,
    )
    divergence = None if teacher is None else divergence
    return Computed(batch, embedded, gate, residual, nll, divergence)


def _depth_weights(embedded: Embedded) -> dict[str, Tensor]:
    """Return ``depth_weight/<k>``, the mean weight of the depth number k (from 0) over the frontal
    patches, and ``depth_favourite/<k>``, the share of patches in which it has the largest weight;
    each as sum and count."""
    weights = embedded.depth_weights["frontal"].detach()
    count = weights.new_full((), len(weights))
    favourite = weights.argmax(-1)
    means = {}
    for k in range(weights.shape[-1]):
        means[f"depth_weight/{k}"] = torch.stack([weights[..., k].mean() * count, count])
        means[f"depth_favourite/{k}"] = torch.stack(
            [(favourite == k).to(weights).mean() * count, count]
        )
    return means


def _gates(gate: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return ``gate/<context>``, the means of ``gate`` [B] over the records of each context, as sum
    and count."""
    means = {}
    rows = PrefixCalibrator.row(*batch.availability.long().unbind(1))
    for context in CONTEXTS:
        inside = rows == PrefixCalibrator.row(*availability(context))
        means[f"gate/{context}"] = torch.stack(
            [torch.where(inside, gate.detach(), 0).sum(), inside.sum()]
        )
    return means
