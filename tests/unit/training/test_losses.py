from __future__ import annotations

import torch

from pacer.training.losses import emphasis_loss
from tests.support.losses import consistency_loss


def test_nothing_to_count_is_a_loss_of_zero() -> None:
    assert emphasis_loss(torch.rand(2, 2), torch.zeros(2, 2)).item() == 0.0
    logits = torch.randn(2, 3, 5)
    assert consistency_loss(logits, 2 * logits, torch.zeros(2, 3, dtype=torch.bool)).item() == 0.0
