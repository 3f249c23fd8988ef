"""The source interface: each source compressed to Q tokens, and the three slots fused (after
LLM-RG4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pacer.model.batch import RefinedSources


@dataclass(frozen=True)
class SourceTokens:
    """The interface's output."""

    #: [B, 3, Q, d]: frontal, lateral, prior; zeros where absent.
    tokens: Tensor
    #: [B, Q, d].
    fused: Tensor


class SourceCompressor(nn.Module):
    """Compress a source to the query positions and project it to the language model's width.

        x = LN1(Attention(queries, source, source));  c = x + LN2(W1 x);  z = LN3(W3 GELU(W2 c))

    As upstream, the attention has bias key/values and a zero key. ``c`` [B, Q, d_v] is the
    compressed source, ``z`` [B, Q, d] its projection.
    """

    def __init__(
        self,
        d_query: int,
        d_source: int,
        d_model: int,
        *,
        num_heads: int,
        d_hidden: int,
        dropout: float,
    ):
        super().__init__()
        self.attention = nn.MultiheadAttention(
            d_query,
            num_heads,
            dropout,
            add_bias_kv=True,
            add_zero_attn=True,
            kdim=d_source,
            vdim=d_source,
            batch_first=True,
        )
        self.attention_norm = nn.LayerNorm(d_query)
        self.mix = nn.Linear(d_query, d_query)
        self.mix_norm = nn.LayerNorm(d_query)
        self.up = nn.Linear(d_query, d_hidden)
        self.project = nn.Linear(d_hidden, d_model)
        self.project_norm = nn.LayerNorm(d_model)

    def forward(self, queries: Tensor, source: Tensor, padding: Tensor | None = None) -> Tensor:
        """queries [B, Q, d_v], source [B, L, d_source], padding [B, L] bool (True: hidden) -> c [B,
        Q, d_v]."""
        attended, _ = self.attention(
            queries, source, source, key_padding_mask=padding, need_weights=False
        )
        attended = self.attention_norm(attended)
        return attended + self.mix_norm(self.mix(attended))

    def to_model(self, compressed: Tensor) -> Tensor:
        """Project: c [B, Q, d_v] -> z [B, Q, d]."""
        return self.project_norm(self.project(F.gelu(self.up(compressed))))


class SourceInterface(nn.Module):
    r"""Compress frontal, lateral and previous report to ``Z_s`` [B, Q, d], and fuse them.

        c_f, Z_f = frontal(queries, V_f);  _, Z_l = lateral(c_f, V_l);  _, Z_p = prior(c_f, T_p)
        fused    = LN(W [Z_f; Z_l; Z_p] + b)       absent slots are zeros

    The compressed frontal source ``c_f`` is the query for the other two (paper, appendix "Interface
    and visual routing"). Rows without a source are not computed for it, so nothing in them, not
    even NaN, reaches the output.

    Initialisation: queries N(0, query_std), everything else torch's default.
    ``fusion_init="identity"`` sets W to [I 0 0], so fusion starts as LN of the frontal slot;
    ``"random"`` is upstream's.

    Args:
        d_vision, d_text, d_model: widths of the image states, the previous-report states and the
            language model.
        num_queries: Q.
        num_heads, dropout: of the attention.
        d_hidden: hidden width of the projectors.
        query_std: initial standard deviation of the queries.
        mask_prior_padding: hide padded previous-report positions (upstream attends to them).
    """

    def __init__(
        self,
        d_vision: int,
        d_text: int,
        d_model: int,
        *,
        num_queries: int = 128,
        num_heads: int = 12,
        d_hidden: int = 2048,
        dropout: float = 0.1,
        query_std: float = 0.02,
        fusion_init: Literal["random", "identity"] = "random",
        mask_prior_padding: bool = False,
    ):
        super().__init__()
        self.mask_prior_padding = mask_prior_padding
        self.queries = nn.Parameter(torch.randn(num_queries, d_vision) * query_std)
        sizes = {"num_heads": num_heads, "d_hidden": d_hidden, "dropout": dropout}
        self.frontal = SourceCompressor(d_vision, d_vision, d_model, **sizes)
        self.lateral = SourceCompressor(d_vision, d_vision, d_model, **sizes)
        self.prior = SourceCompressor(d_vision, d_text, d_model, **sizes)
        self.fusion = nn.Linear(3 * d_model, d_model)
        self.fusion_norm = nn.LayerNorm(d_model)
        if fusion_init == "identity":
            nn.init.eye_(self.fusion.weight)
            nn.init.zeros_(self.fusion.bias)

    @torch.no_grad()
    def start_from_frontal(self, source: Literal["lateral", "prior"]) -> None:
        """Copy the frontal compressor into a source's, and the frontal fusion block at half weight
        into the source's.

        Both views come from the same encoder, so what the warm-up has learnt about the frontal view
        also fits the lateral. The prior's attention reads text states, so it is not copied and
        learns from scratch. The layers after it map compressed findings to the language model's
        words, which the warm-up has learnt for every source.
        """
        for name, module in getattr(self, source).named_children():
            if (source, name) != ("prior", "attention"):
                module.load_state_dict(getattr(self.frontal, name).state_dict())
        width = self.fusion.out_features
        first = width if source == "lateral" else 2 * width
        self.fusion.weight[:, first : first + width] = 0.5 * self.fusion.weight[:, :width]

    def compress_frontal(self, frontal: Tensor) -> Tensor:
        """Compress the frontal source: [B, N, d_v] -> c_f [B, Q, d_v]."""
        queries = self.queries.to(frontal.dtype).expand(len(frontal), -1, -1)
        return self.frontal(queries, frontal)

    def frontal_only(self, frontal: Tensor) -> SourceTokens:
        """Return the tokens of only the frontal source [B, N, d_v], unfused (warm-up)."""
        tokens = self.frontal.to_model(self.compress_frontal(frontal))
        return SourceTokens(tokens.unsqueeze(1), tokens)

    def forward(
        self,
        sources: RefinedSources,
        *,
        filled: Tensor | None = None,
        mix: Callable[[Tensor], Tensor] | None = None,
    ) -> SourceTokens:
        """Compress the sources of a batch, project them to the model's width, and fuse them.

        Args:
            filled: compressed sources [B, 3, Q, d_v] to use instead of those of ``sources``; every
                row has all three.
            mix: changes the source tokens before they are fused; keeps their shape.
        """
        if filled is None:
            compressed = self.compress(sources)
            tokens = self._project(compressed, sources.lateral_rows, sources.prior_rows)
        else:
            everywhere = torch.arange(len(filled), device=filled.device)
            tokens = self._project(filled, everywhere, everywhere)
        if mix is not None:
            tokens = mix(tokens)
        fused = self.fusion_norm(self.fusion(tokens.transpose(1, 2).flatten(2)))
        return SourceTokens(tokens, fused)

    def compress(self, sources: RefinedSources) -> Tensor:
        """Compress all sources to [B, 3, Q, d_v], zeros where absent."""
        frontal = self.compress_frontal(sources.frontal)
        lateral = torch.zeros_like(frontal)
        if sources.lateral_rows is not None:
            queries = frontal.index_select(0, sources.lateral_rows)
            present = self.lateral(queries, sources.lateral)
            lateral = _put(lateral, sources.lateral_rows, present)
        prior = torch.zeros_like(frontal)
        if sources.prior_rows is not None:
            queries = frontal.index_select(0, sources.prior_rows)
            hidden = None
            if self.mask_prior_padding and sources.prior_mask is not None:
                hidden = ~sources.prior_mask
            present = self.prior(queries, sources.prior, hidden)
            prior = _put(prior, sources.prior_rows, present)
        return torch.stack([frontal, lateral, prior], dim=1)

    def _project(
        self, compressed: Tensor, lateral_rows: Tensor | None, prior_rows: Tensor | None
    ) -> Tensor:
        """Project compressed sources [B, 3, Q, d_v] to Z_s [B, 3, Q, d], zeros where absent."""
        frontal = self.frontal.to_model(compressed[:, 0])
        slots = [frontal]
        others = ((self.lateral, lateral_rows), (self.prior, prior_rows))
        for place, (module, rows) in enumerate(others, start=1):
            slot = torch.zeros_like(frontal)
            if rows is not None:
                present = module.to_model(compressed[:, place].index_select(0, rows))
                slot = _put(slot, rows, present)
            slots.append(slot)
        return torch.stack(slots, dim=1)


def _put(slot: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    """Return the slot of a source [B, ...] with these values [n, ...] in its rows [n]."""
    return slot.index_put((rows,), values.to(slot.dtype))
