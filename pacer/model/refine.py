"""Refine: endpoint-preserving patchwise depth routing (paper, section "Refine").

A mixer, which ``MIXERS`` in ``pacer/config/model.py`` lists by name, is a class with two functions.
``parts`` makes its trained tensors and modules for K depths of width d_r, which become attributes
of the router. ``weights`` computes the depth weights [B, N, K] of each patch from its aligned
states [B, N, K, d_r]: nonnegative, with sum one. At the start every depth must have a weight, or it
could never get one: what it adds to the mixture is all that trains it.
"""

import math
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from pacer.config.model import MIXERS


class Patchwise:
    """The paper's: ``softmax_k(w . u[b,k,n] + beta_k)``, with w and beta zero at the start."""

    @staticmethod
    def parts(num_depths: int, d_routing: int) -> dict[str, nn.Parameter | nn.Module]:
        """Return w ``route_vector`` [d_r] and beta ``depth_bias`` [K]."""
        return {
            "route_vector": nn.Parameter(torch.zeros(d_routing)),
            **Global.parts(num_depths, d_routing),
        }

    @staticmethod
    def weights(router: Any, aligned: Tensor) -> Tensor:
        """Score each state of each patch."""
        return (router.depth_bias + aligned @ router.route_vector).softmax(dim=-1)


class Global:
    """``softmax_k(beta_k)``, the same for all patches and samples."""

    @staticmethod
    def parts(num_depths: int, d_routing: int) -> dict[str, nn.Parameter | nn.Module]:
        """Return beta ``depth_bias`` [K]."""
        return {"depth_bias": nn.Parameter(torch.zeros(num_depths))}

    @staticmethod
    def weights(router: Any, aligned: Tensor) -> Tensor:
        """Repeat the softmax of the biases."""
        return router.depth_bias.expand(aligned.shape[:-1]).softmax(dim=-1)


class DepthRouter(nn.Module):
    r"""Add to each patch of the encoder's endpoint a bounded correction, mixed from the tapped
    depths.

    Paper, equations (depth-alignment), (depth-router) and (depth-residual)::

        u[b,k,n]  = P_k LN_k(v[b,k,n]) + b_k                      alignment to the routing space
        pi[b,n,k] = softmax_k(w . u[b,k,n] + beta_k)              depth weights of a patch
        delta[b,n]= W_o LN_delta(sum_k pi[b,n,k] u[b,k,n]) + b_o  correction
        out[b,n]  = v_end[b,n] + alpha_D delta[b,n]               alpha_D = max_scale sigmoid(eta)

    Symbols and parameters: LN_k ``norms[k]``, (P_k, b_k) ``align[k]``, w ``route_vector`` [d_r],
    beta ``depth_bias`` [K], LN_delta ``mix_norm``, (W_o, b_o) ``out``, eta ``eta`` (scalar).

    Initialisation: P_k is the identity (its upper-left part when d_r != d_v), all biases, w, beta,
    W_o and b_o are zero, norms are (1, 0), eta = logit(init_scale / max_scale). So at the start
    ``refined == endpoint`` exactly.

    Variants: the mixers compute pi, ``patchwise`` as above, others in their own way; ``endpoint``
    returns the endpoint and has no parameters.

    Args:
        num_depths: K, number of tapped depths.
        d_vision: d_v, encoder width.
        d_routing: d_r, routing width; ``None``: d_v.
        variant: see above.
        max_scale: upper bound of alpha_D.
        init_scale: alpha_D at the start, in (0, max_scale).
    """

    def __init__(
        self,
        num_depths: int,
        d_vision: int,
        d_routing: int | None = None,
        *,
        variant: str = "patchwise",
        max_scale: float = 0.5,
        init_scale: float = 0.1,
    ):
        super().__init__()
        self.variant, self.max_scale, self.num_depths = variant, max_scale, num_depths
        if variant == "endpoint":
            return
        d_routing = d_routing or d_vision
        self.norms = nn.ModuleList(nn.LayerNorm(d_vision) for _ in range(num_depths))
        align = [nn.Linear(d_vision, d_routing) for _ in range(num_depths)]
        for linear in align:
            nn.init.eye_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.align = nn.ModuleList(align)
        module, _, name = MIXERS[variant].partition(":")
        self.mixer: Any = getattr(import_module(module), name)
        for part, values in self.mixer.parts(num_depths, d_routing).items():
            setattr(self, part, values)
        self.mix_norm = nn.LayerNorm(d_routing)
        self.out = nn.Linear(d_routing, d_vision)
        ratio = init_scale / max_scale
        self.eta = nn.Parameter(torch.tensor(math.log(ratio / (1 - ratio))))
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    @property
    def scale(self) -> Tensor:
        """alpha_D, the scalar residual weight, in (0, max_scale)."""
        return self.max_scale * torch.sigmoid(self.eta)

    def forward(self, depths: Tensor, endpoint: Tensor) -> tuple[Tensor, Tensor]:
        """Refine one batch of images.

        Args:
            depths: [B, K, N, d_v] patch states at the tapped depths (before the final LayerNorm).
            endpoint: [B, N, d_v] the encoder's final, normalised patch states.

        Returns:
            refined [B, N, d_v] and depth weights [B, N, K] (each patch's weights sum to one; with
            ``endpoint`` all weight is on the last depth).
        """
        batch, num_depths, num_patches, _ = depths.shape
        if num_depths != self.num_depths:
            raise ValueError(
                f"expected {self.num_depths} depths (features.depths), got {num_depths}"
            )
        if self.variant == "endpoint":
            weights = endpoint.new_zeros(batch, num_patches, num_depths)
            weights[..., -1] = 1
            return endpoint, weights
        aligned = torch.stack(
            [
                align(norm(depths[:, k]))
                for k, (norm, align) in enumerate(zip(self.norms, self.align, strict=True))
            ],
            dim=2,
        )  # [B, N, K, d_r]
        weights = self.mixer.weights(self, aligned)
        mixed = torch.einsum("bnk,bnkd->bnd", weights, aligned)
        return endpoint + self.scale * self.out(self.mix_norm(mixed)), weights
