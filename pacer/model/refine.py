"""Refine: endpoint-preserving patchwise depth routing (paper, section "Refine").

``MIXERS`` in ``pacer/config/model.py`` lists the subclasses of :class:`DepthRouter` by their name
in ``refine.variant``.
"""

import math
from importlib import import_module

import torch
from torch import Tensor, nn

from pacer.config.model import MIXERS


class Router(nn.Module):
    """Refines the patches of an image with the states of the tapped depths.

    Args:
        num_depths: K, number of tapped depths.
    """

    def __init__(self, num_depths: int):
        super().__init__()
        self.num_depths = num_depths

    def forward(self, depths: Tensor, endpoint: Tensor) -> tuple[Tensor, Tensor]:
        """Refine one batch of images.

        Args:
            depths: [B, K, N, d_v] patch states at the tapped depths (before the final LayerNorm).
            endpoint: [B, N, d_v] the encoder's final, normalised patch states.

        Returns:
            refined [B, N, d_v] and depth weights [B, N, K].
        """
        if depths.shape[1] != self.num_depths:
            raise ValueError(
                f"expected {self.num_depths} depths (features.depths), got {depths.shape[1]}"
            )
        return self.mix(depths, endpoint)

    def mix(self, depths: Tensor, endpoint: Tensor) -> tuple[Tensor, Tensor]:
        """Compute what :meth:`forward` returns."""
        raise NotImplementedError


class DepthRouter(Router):
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

    A subclass computes pi in its own way: ``add_parts`` adds the tensors and modules that this
    takes, ``weights`` uses them.

    Args:
        num_depths: K, number of tapped depths.
        d_vision: d_v, encoder width.
        d_routing: d_r, routing width; ``None``: d_v.
        max_scale: upper bound of alpha_D.
        init_scale: alpha_D at the start, in (0, max_scale).
    """

    def __init__(
        self,
        num_depths: int,
        d_vision: int,
        d_routing: int | None = None,
        *,
        max_scale: float = 0.5,
        init_scale: float = 0.1,
    ):
        super().__init__(num_depths)
        self.max_scale = max_scale
        d_routing = d_routing or d_vision
        self.norms = nn.ModuleList(nn.LayerNorm(d_vision) for _ in range(num_depths))
        align = [nn.Linear(d_vision, d_routing) for _ in range(num_depths)]
        for linear in align:
            nn.init.eye_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.align = nn.ModuleList(align)
        self.add_parts(num_depths, d_routing)
        self.mix_norm = nn.LayerNorm(d_routing)
        self.out = nn.Linear(d_routing, d_vision)
        ratio = init_scale / max_scale
        self.eta = nn.Parameter(torch.tensor(math.log(ratio / (1 - ratio))))
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def add_parts(self, num_depths: int, d_routing: int) -> None:
        """Add what :meth:`weights` trains, as attributes of this module."""
        raise NotImplementedError

    def weights(self, aligned: Tensor) -> Tensor:
        """Return pi [B, N, K] for the aligned states [B, N, K, d_r]: nonnegative, with sum one.

        At the start all depth weights must be positive: a depth with weight 0 gets no gradient.
        """
        raise NotImplementedError

    @property
    def scale(self) -> Tensor:
        """alpha_D, the scalar residual weight, in (0, max_scale)."""
        return self.max_scale * torch.sigmoid(self.eta)

    def mix(self, depths: Tensor, endpoint: Tensor) -> tuple[Tensor, Tensor]:
        """Add the correction to the endpoint (the equations above)."""
        # [B, N, K, d_r]
        aligned = torch.stack(
            [
                align(norm(depths[:, k]))
                for k, (norm, align) in enumerate(zip(self.norms, self.align, strict=True))
            ],
            dim=2,
        )
        weights = self.weights(aligned)
        mixed = torch.einsum("bnk,bnkd->bnd", weights, aligned)
        return endpoint + self.scale * self.out(self.mix_norm(mixed)), weights


class Global(DepthRouter):
    """``softmax_k(beta_k)``, the same for all patches and samples."""

    def add_parts(self, num_depths: int, d_routing: int) -> None:
        """Add beta ``depth_bias`` [K]."""
        self.depth_bias = nn.Parameter(torch.zeros(num_depths))

    def weights(self, aligned: Tensor) -> Tensor:
        """Repeat the softmax of the biases."""
        return self.depth_bias.expand(aligned.shape[:-1]).softmax(dim=-1)


class Patchwise(DepthRouter):
    """The paper's mixture: ``softmax_k(w . u[b,k,n] + beta_k)``."""

    def add_parts(self, num_depths: int, d_routing: int) -> None:
        """Add w ``route_vector`` [d_r] and beta ``depth_bias`` [K]."""
        self.route_vector = nn.Parameter(torch.zeros(d_routing))
        self.depth_bias = nn.Parameter(torch.zeros(num_depths))

    def weights(self, aligned: Tensor) -> Tensor:
        """Score each state of each patch."""
        return (self.depth_bias + aligned @ self.route_vector).softmax(dim=-1)


class Endpoint(Router):
    """No mixture and no parameters: returns the endpoint, with all weight on the last depth."""

    def mix(self, depths: Tensor, endpoint: Tensor) -> tuple[Tensor, Tensor]:
        """Return the endpoint."""
        weights = endpoint.new_zeros(*endpoint.shape[:2], self.num_depths)
        weights[..., -1] = 1
        return endpoint, weights


def build_router(
    variant: str, num_depths: int, d_vision: int, d_routing: int | None = None, **scales: float
) -> Router:
    """Build the router of a ``refine.variant``: a row of ``MIXERS``, or ``endpoint``. The other
    arguments are those of :class:`DepthRouter`."""
    if variant == "endpoint":
        return Endpoint(num_depths)
    module, _, name = MIXERS[variant].partition(":")
    mixer: type[DepthRouter] = getattr(import_module(module), name)
    return mixer(num_depths, d_vision, d_routing, **scales)
