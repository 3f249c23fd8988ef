"""The gradients of all trained parameters as one tensor, so that processes add them up in one all-reduce."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from accelerate import Accelerator
from torch import Tensor, nn

#: Room behind the gradients for the numbers that travel with them.
_TAIL = 64


class Gradients:
    """Makes each parameter's ``grad`` a part of one tensor; they stay there from update to update.

    Args:
        parameters: trained parameters, all of one type and on one device.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]):
        self.size = sum(parameter.numel() for parameter in parameters)
        self.flat = parameters[0].new_zeros(self.size + _TAIL)
        start = 0
        for parameter in parameters:
            parameter.grad = self.flat[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()

    def clear(self) -> None:
        """Set all to zero: a source that no row has adds nothing."""
        self.flat.zero_()

    def sum_over_processes(self, beside: Tensor, accelerator: Accelerator) -> Tensor:
        """Add up the gradients, and the numbers ``beside`` [n] them, over all processes; returns the numbers' sums."""
        if accelerator.num_processes == 1:
            return beside
        if len(beside) > _TAIL:
            raise ValueError(f"{len(beside)} numbers do not fit beside the gradients, {_TAIL} do")
        tail = slice(self.size, self.size + len(beside))
        self.flat[tail] = beside
        self.flat.copy_(accelerator.reduce(self.flat, reduction="sum"))  # type: ignore[arg-type]
        return self.flat[tail].clone()

    def norm(self) -> float:
        """Euclidean norm over all parameters."""
        return torch.linalg.vector_norm(self.flat[: self.size]).item()

    def clip(self, norm: float, limit: float | None) -> None:
        """Scale the gradient, of this norm, down to ``limit``; None: never."""
        if limit is not None and norm > limit:
            self.flat[: self.size] *= limit / norm
