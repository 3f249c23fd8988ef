"""SimMLM on the frozen parent: residual experts of the sources, mixed by a gate that knows which are there.

Adapted from SimMLM (Li et al., 2025) as PACER's appendix "Incomplete-Multimodal Baseline Adaptations" says;
``docs/experiments.md`` says what of it is our reading.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pacer.baselines.adapted import Adapted
from pacer.baselines.pairs import PARTS
from pacer.config import baselines as params
from pacer.core.contexts import availability
from pacer.model.interface import SourceTokens
from pacer.model.pacer import Batch, Pacer
from pacer.training.head import token_terms
from pacer.training.losses import (
    EPSILON,
    LossWeights,
    Mean,
    Objective,
    by_context,
    denominators,
    depth_weights,
    emphasis_loss,
    trajectory_loss,
)


class ResidualExperts(nn.Module):
    r"""One expert for each source and a gate over the observed ones.

        R_s(Z) = W_up,s GELU(W_down,s LN_s(Z))                              position-wise, rank r
        u      = [mean Z_f; a_l mean Z_l; a_p mean Z_p]                     zeros kept, as in the published router
        w      = softmax over observed s of (W_o GELU(W_i LN(u) + b_i) + b_o)_s

    An absent source has the logit minus infinity, so w is 0 there. W_up is zero-initialised: nothing is added at start.

    Args:
        d_model: d. rank: r. d_gate: hidden width of the gate.
    """

    def __init__(self, d_model: int, *, rank: int, d_gate: int):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.down = nn.ModuleList(nn.Linear(d_model, rank, bias=False) for _ in range(3))
        self.up = nn.ModuleList(nn.Linear(rank, d_model, bias=False) for _ in range(3))
        for up in self.up.parameters():
            nn.init.zeros_(up)
        self.gate_norm = nn.LayerNorm(3 * d_model)
        self.gate_in = nn.Linear(3 * d_model, d_gate)
        self.gate_out = nn.Linear(d_gate, 3)

    def mixture(self, tokens: Tensor, availability: Tensor) -> Tensor:
        """w [B, 3] of source tokens [B, 3, Q, d] (zeros where absent) and availability [B, 2] bool."""
        observed = F.pad(availability, (1, 0), value=True)  # [B, 3]: the frontal is always there
        means = torch.where(observed.unsqueeze(-1), tokens.mean(2), 0)
        logits = self.gate_out(F.gelu(self.gate_in(self.gate_norm(means.flatten(1)))))
        return logits.float().masked_fill(~observed, -torch.inf).softmax(-1)

    def forward(self, tokens: Tensor, availability: Tensor) -> tuple[Tensor, Tensor]:
        """w_s R_s(Z_s) [B, 3, Q, d], zero where a source is absent, and w [B, 3]."""
        experts = [
            up(F.gelu(down(norm(tokens[:, s]))))
            for s, (norm, down, up) in enumerate(zip(self.norms, self.down, self.up, strict=True))
        ]
        mixture = self.mixture(tokens, availability)
        return mixture[:, :, None, None] * torch.stack(experts, dim=1), mixture


@dataclass(frozen=True)
class MixedTokens(SourceTokens):
    """Source tokens of experts, with the gate's ``mixture`` [B, 3]."""

    mixture: Tensor


class SimMLM(Adapted):
    """The parent with experts: Z_s + w_s R_s(Z_s) before its fusion (``per_slot``), or their sum behind the fusion.

    Parent and baseline are the same function at the start.
    """

    def __init__(self, parent: Pacer, own: params.SimMLM):
        super().__init__(parent, ResidualExperts(parent.language.config.hidden_size, rank=own.rank, d_gate=own.d_gate))
        self.mixing = own.mixing

    def fuse(self, compressed: Tensor, batch: Batch) -> MixedTokens:
        """The source tokens and the visual tokens, with what the experts add."""
        tokens = self.interface.project(compressed, batch.availability)
        residual, mixture = self.added(tokens, batch.availability)
        if self.mixing == "per_slot":
            tokens = tokens + residual
            return MixedTokens(tokens, self.interface.join(tokens), mixture)
        return MixedTokens(tokens, self.interface.join(tokens) + residual.sum(1), mixture)


def paired_objective(
    model: SimMLM,
    batch: Batch,
    losses: LossWeights,
    *,
    own: params.SimMLM,
    frontal_only: bool = False,
    global_denominators: Tensor | None = None,
) -> Objective:
    """The parent's objective over both halves of a batch, plus ``alpha * mean relu(n_more - n_fewer)``.

    n is a sample's negative log-likelihood over the weight of what is supervised, ``sum(omega l) / sum(omega)``.
    Nothing is detached: where more evidence explains the target worse, the gradient also raises the other loss.

    Args:
        batch: the samples with more evidence, then in the same order those with less; of three ``parts`` the last is
            the second one's prompts and targets with the first one's sources. It has no weight of its own and stands
            for the first in the ranking.
        own: alpha, the pairs' target, and twice the pairs of a micro-batch over all processes.
    """
    assert batch.omega is not None and batch.s is not None and batch.kappa is not None
    below = (denominators(batch) if global_denominators is None else global_denominators).to(batch.omega.dtype)
    embedded = model.embed(batch)
    at = batch.predicted
    states = model.predicting_states(embedded.inputs, batch)
    nll, _ = token_terms(states, model.language.lm_head.weight, batch.ids[at])
    trajectory = trajectory_loss(nll, batch.omega[at], batch.kappa, denominator=below[0])
    emphasis = emphasis_loss(nll, batch.s[at], denominator=below[1])

    pairs, parts = own.batch_size // 2, PARTS[own.pair_target]
    first, second, *third = torch.arange(len(batch.ids), device=at.device).chunk(parts)
    compared = third[0] if third else first
    ranked = batch.omega.clone()
    if third:
        ranked[first], ranked[compared] = 0, batch.omega[second]
    share = (ranked / ranked.sum(1, keepdim=True).clamp(min=EPSILON))[at]
    per_sample = nll.new_zeros(len(batch.ids)).index_add(0, at.nonzero()[:, 0], share * nll)
    more, fewer = per_sample[compared], per_sample[second]
    ranking = F.relu(more - fewer).sum() / pairs

    total = trajectory + losses.lambda_tlw * emphasis + own.alpha * ranking
    parts_of_loss = {"trajectory": trajectory, "emphasis": emphasis, "ranking": ranking}
    logged = {name: part.detach() for name, part in parts_of_loss.items()}
    logged["violated"] = (more > fewer).sum() / pairs
    return Objective(total, logged, depth_weights(embedded) | _shares(embedded.sources, batch))


def _shares(sources: SourceTokens, batch: Batch) -> dict[str, Mean]:
    """``share/<context>_<source>``: the gate's shares of the sources that a context has."""
    assert isinstance(sources, MixedTokens)
    return {
        f"share/{context}_{source}": mean
        for place, source in enumerate(("frontal", "lateral", "prior"))
        for context, mean in by_context(sources.mixture[:, place], batch).items()
        if (True, *availability(context))[place]
    }
