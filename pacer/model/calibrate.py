"""Calibrate: availability-conditioned low-rank correction of the prefix (paper, section
"Calibrate")."""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

GateInputs = Literal["h", "he", "hz", "hze"]


class Calibrated(NamedTuple):
    """The output of the calibrator."""

    #: [B, T, d], the prefix after the correction.
    prefix: Tensor
    #: [B].
    gate: Tensor
    #: [B, T, d], the correction, multiplied by the gate.
    residual: Tensor


class PrefixCalibrator(nn.Module):
    r"""Correct the language model's prefix, with a strength gated by evidence and availability.

    Paper, equations (prefix-summaries), (prefix-gate), (prefix-route)::

        h   = mean of the valid prefix positions                        [d]
        z   = mean over observed sources of the mean of their Q tokens  [d]
        e   = availability[lateral + 2 prior]                           [d_a]
        g   = sigmoid(w_g . GELU(W_g [h; z; e] + b_g) + b_out)          scalar per sample
        B(E)= W_up Dropout(GELU(W_down LN(E)))                          position-wise, rank r
        E'  = E + g m B(E)                                              only where m = 1

    Parameters: e ``availability`` (Embedding(4, d_a)), (W_g, b_g) ``gate_in``, (w_g, b_out)
    ``gate_out``, LN ``norm``, W_down ``down``, W_up ``up`` (no biases in the last two).

    ``gate_inputs`` names the cues in use; a disabled cue is a zero vector, so all variants have the
    same width and parameter count. The module never sees a target position: the caller passes only
    the prefix.

    Initialisation: W_up and w_g are zero, b_out = gate_bias. So E' = E and g = sigmoid(gate_bias)
    at the start.

    Args:
        d_model: d.
        rank: r.
        d_availability: d_a (None: d).
        d_gate: hidden width of the gate (None: d).
        dropout: in the bottleneck.
    """

    def __init__(
        self,
        d_model: int,
        *,
        rank: int = 16,
        d_availability: int | None = None,
        d_gate: int | None = None,
        dropout: float = 0.05,
        gate_inputs: GateInputs = "hze",
        gate_bias: float = -2.2,
    ):
        super().__init__()
        d_availability = d_availability or d_model
        d_gate = d_gate or d_model
        self.gate_inputs = gate_inputs
        self.availability = nn.Embedding(4, d_availability)
        self.gate_in = nn.Linear(2 * d_model + d_availability, d_gate)
        self.gate_out = nn.Linear(d_gate, 1)
        self.norm = nn.LayerNorm(d_model)
        self.down = nn.Linear(d_model, rank, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.up = nn.Linear(rank, d_model, bias=False)
        nn.init.zeros_(self.gate_out.weight)
        nn.init.constant_(self.gate_out.bias, gate_bias)
        nn.init.zeros_(self.up.weight)

    @staticmethod
    def row(lateral: Any, prior: Any) -> Any:
        """Return the row of ``availability`` for these sources: bools, or tensors of them as
        int64."""
        return lateral + 2 * prior

    def forward(
        self, prefix: Tensor, prefix_mask: Tensor, source_tokens: Tensor, availability: Tensor
    ) -> Calibrated:
        """Correct a batch of prefixes.

        Args:
            prefix: [B, T, d] input embeddings.
            prefix_mask: [B, T] bool, valid prefix positions.
            source_tokens: [B, 3, Q, d] pre-fusion tokens, any values where absent.
            availability: [B, 2] bool.
        """
        mask = prefix_mask.unsqueeze(-1)
        valid = torch.where(mask, prefix, 0)  # padding has no effect, whatever it holds
        h = valid.sum(1) / mask.sum(1)
        # [B, 3]: the frontal view is always available
        observed = F.pad(availability, (1, 0), value=True)
        means = torch.where(observed.unsqueeze(-1), source_tokens.mean(2), 0).to(prefix.dtype)
        z = means.sum(1) / observed.sum(1, keepdim=True)
        e = self.availability(self.row(*availability.long().unbind(1)))
        if "z" not in self.gate_inputs:
            z = torch.zeros_like(z)
        if "e" not in self.gate_inputs:
            # a zero gradient for the embedding, so that all variants train the same tensors
            e = e * 0
        gate = torch.sigmoid(
            self.gate_out(F.gelu(self.gate_in(torch.cat([h, z, e], dim=-1)))).squeeze(-1)
        )
        correction = self.up(self.dropout(F.gelu(self.down(self.norm(valid)))))
        residual = torch.where(mask, gate[:, None, None] * correction, 0)
        return Calibrated(prefix + residual, gate, residual)
