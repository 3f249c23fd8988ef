"""Both sides of the loss head's comparison in `bench/train.py`: inputs, losses, and forward and backward passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from shapes import Preset
from torch import Tensor
from upstream_style import IGNORED, all_position_head

from pacer.training.head import token_terms


class HeadCase(NamedTuple):
    """Inputs of the loss head: hidden, teacher [B, T, d]; head [V, d]; labels, weight, divergence_weight [B, T]."""

    hidden: Tensor
    head: Tensor
    labels: Tensor
    weight: Tensor
    teacher: Tensor | None
    divergence_weight: Tensor | None


def head_case(preset: Preset, device: torch.device, divergence: bool) -> HeadCase:
    """Return random inputs with the targets at each sample's end."""
    torch.manual_seed(1)
    shape = preset.head
    size = (shape.batch, shape.positions)
    with torch.device(device):
        hidden = torch.randn(*size, preset.d_model).to(preset.dtype)
        teacher = (hidden + 0.3 * torch.randn(*size, preset.d_model)).to(preset.dtype)
        head = (torch.randn(preset.vocabulary, preset.d_model) * preset.d_model**-0.5).to(preset.dtype)
        labels = torch.full(size, IGNORED)
        weight, share = torch.zeros(size), torch.zeros(size)
        last = slice(-shape.targets, None)
        count = shape.batch * shape.targets
        labels[:, last] = torch.randint(preset.vocabulary, (shape.batch, shape.targets))
        weight[:, last] = (1 + torch.rand(shape.batch, shape.targets)) / count
        share[:, last] = 1 / count
    return HeadCase(hidden.requires_grad_(), head, labels, weight, *((teacher, share) if divergence else (None, None)))


def our_head(case: HeadCase) -> Tensor:
    """Return the loss from :func:`pacer.training.head.token_terms`, with a gradient to all hidden states."""
    at = case.labels != IGNORED
    teacher, compared, count = None, None, 0
    if case.teacher is not None and case.divergence_weight is not None:
        teacher, compared = case.teacher[at], case.divergence_weight[at] > 0
        count = int(compared.sum())
    nll, divergence = token_terms(case.hidden[at], case.head, case.labels[at], teacher, compared, count)
    total = (case.weight[at] * nll).sum()
    if case.divergence_weight is not None:
        total = total + (case.divergence_weight[at] * divergence).sum()
    return total


def their_head(case: HeadCase) -> Tensor:
    """Return the same loss, with logits for all positions."""
    return all_position_head(*case)


HEADS: dict[str, Callable[[HeadCase], Tensor]] = {"ours": our_head, "theirs": their_head}


def head_step(case: HeadCase, side: str) -> Tensor:
    """Return the loss, and leave its gradient in ``case.hidden.grad``."""
    case.hidden.grad = None
    loss = HEADS[side](case)
    loss.backward()
    return loss.detach()
