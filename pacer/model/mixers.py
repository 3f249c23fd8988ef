"""Mixers: how the depths of a patch are weighted. ``MIXERS`` in ``pacer/config/model.py`` lists them by name.

A mixer is a class with two functions. ``parts`` makes its trained tensors and modules for K depths of width d_r, which
become attributes of the router. ``weights`` computes the depth weights [B, N, K] of each patch from its aligned states
[B, N, K, d_r]: nonnegative, with sum one. At the start every depth must have a weight, or it could never get one: what
it adds to the mixture is all that trains it.
"""

from typing import Any

import torch
from torch import Tensor, nn


class Patchwise:
    """The paper's: ``softmax_k(w . u[b,k,n] + beta_k)``, with w and beta zero at the start."""

    @staticmethod
    def parts(num_depths: int, d_routing: int) -> dict[str, nn.Parameter | nn.Module]:
        """Return w ``route_vector`` [d_r] and beta ``depth_bias`` [K]."""
        return {"route_vector": nn.Parameter(torch.zeros(d_routing)), **Global.parts(num_depths, d_routing)}

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
