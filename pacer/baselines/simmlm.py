"""SimMLM on the frozen parent: residual experts of the sources, mixed by a gate over those that are available.

Adapted from SimMLM (Li et al., 2025) as described in PACER's appendix "Incomplete-Multimodal Baseline Adaptations";
``docs/experiments.md`` lists our own interpretations.
"""

from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pacer.baselines.adapted import Adapted, train_adapted
from pacer.baselines.pairs import PairedBatch, PairedExamples
from pacer.config import Params
from pacer.config.baselines import SimMLM as SimMLMSettings
from pacer.core.contexts import WITH_SOURCE
from pacer.model.batch import Batch, RefinedSources
from pacer.model.interface import SourceTokens
from pacer.training.losses import EPSILON, LossWeights, Objective, objective
from pacer.training.run import Inputs, OpenLog


class ResidualExperts(nn.Module):
    r"""One expert for each source and a gate over the observed ones.

        R_s(Z) = W_up,s GELU(W_down,s LN_s(Z))                              position-wise, rank r
        u      = [mean Z_f; a_l mean Z_l; a_p mean Z_p]                     zeros kept, as in the published router
        w      = softmax over observed s of (W_o GELU(W_i LN(u) + b_i) + b_o)_s

    An absent source has the logit minus infinity, so its w is 0. W_up starts at zero, so at first nothing is added.

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
        """Return w [B, 3] for source tokens [B, 3, Q, d] (zeros if absent) and availability [B, 2] bool."""
        observed = F.pad(availability, (1, 0), value=True)  # [B, 3]: the frontal is always available
        means = torch.where(observed.unsqueeze(-1), tokens.mean(2), 0)
        logits = self.gate_out(F.gelu(self.gate_in(self.gate_norm(means.flatten(1)))))
        return logits.float().masked_fill(~observed, -torch.inf).softmax(-1)

    def forward(self, tokens: Tensor, sources: RefinedSources) -> Tensor:
        """Return w_s R_s(Z_s) [B, 3, Q, d], zero for an absent source. sources: those of ``tokens`` [B, 3, Q, d]."""
        everywhere = torch.arange(len(tokens), device=tokens.device)
        answers = torch.zeros_like(tokens)
        for s, rows in enumerate((everywhere, sources.lateral_rows, sources.prior_rows)):
            if rows is not None:
                low = self.down[s](self.norms[s](tokens[:, s].index_select(0, rows)))
                answers[:, s] = answers[:, s].index_copy(0, rows, self.up[s](F.gelu(low)).to(answers.dtype))
        return self.mixture(tokens, sources.availability)[:, :, None, None] * answers


class SimMLM(Adapted):
    """The parent with experts: w_s R_s(Z_s) is added to Z_s before the fusion. At first it computes as the parent."""

    name, settings_type = "simmlm", SimMLMSettings
    only_in: ClassVar = {
        f"added.{part}.{source}.": WITH_SOURCE[source] for part in ("norms", "down", "up") for source in (1, 2)
    }

    def blocks(self, name: str, values: Tensor) -> list[tuple[Tensor, tuple[str, ...]]]:
        """Divide as :meth:`Pacer.blocks`; the gate's output has a row for each source."""
        if name.startswith("added.gate_out."):
            return list(zip(values.chunk(3), WITH_SOURCE, strict=True))
        return super().blocks(name, values)

    def new_modules(self, settings: SimMLMSettings) -> ResidualExperts:
        """Return the experts and their gate."""
        return ResidualExperts(self.language.config.hidden_size, rank=settings.rank, d_gate=settings.d_gate)

    def source_tokens(self, refined: RefinedSources, batch: Batch) -> SourceTokens:
        """Return the source tokens and the visual tokens, including what the experts add."""
        return self.interface(refined, mix=lambda tokens: tokens + self.added(tokens, refined))


def paired_objective(
    model: SimMLM, batch: PairedBatch, losses: LossWeights, *, settings: SimMLMSettings, **named: Any
) -> Objective:
    """Return the parent's objective over the first two parts of pairs, plus ``alpha * mean relu(n_more - n_fewer)``.

    n is the weighted mean of a sample's negative log-likelihoods, ``sum(omega l) / sum(omega)``. Nothing is detached:
    if more evidence explains the target worse, the gradient also raises the loss with less evidence.

    Args:
        batch: the first parts of pairs (:class:`~pacer.baselines.pairs.PairTable`), then the second, then the third,
            which the ranking compares with the second.
        settings: ``alpha``, and ``batch_size``, which is twice the number of pairs in a micro-batch of all processes.
            named: as for :func:`~pacer.training.losses.objective`.
    """
    result, sample = objective(model, batch, losses, **named), batch.at // batch.ids.shape[1]
    nothing = result.nll.new_zeros(len(batch.ids))
    weight = nothing.index_add(0, sample, batch.ranked)
    per_sample = nothing.index_add(0, sample, batch.ranked * result.nll) / weight.clamp(min=EPSILON)
    _, fewer, more = per_sample.chunk(3)
    pairs = settings.batch_size // 2
    ranking = F.relu(more - fewer).sum() / pairs
    logged = {"ranking": ranking.detach(), "violated": (more > fewer).sum() / pairs}
    return result._replace(total=result.total + settings.alpha * ranking, parts=result.parts | logged)


def train_simmlm(settings: SimMLMSettings, params: Params, inputs: Inputs, out: Path, open_log: OpenLog) -> None:
    """Train SimMLM; see :func:`~pacer.baselines.adapted.train_adapted`."""
    in_pairs = settings.model_copy(update={"batch_size": settings.batch_size // 2})
    loss = partial(paired_objective, settings=settings)
    train_adapted(SimMLM, settings, params, inputs, out, open_log, PairedExamples, schedule=in_pairs, objective=loss)
