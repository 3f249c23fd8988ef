from __future__ import annotations

import pytest
import torch

from pacer.model.refine import DepthRouter


def test_the_residual_weight_starts_at_its_initial_value_below_its_bound() -> None:
    router = DepthRouter(3, 8, max_scale=0.5, init_scale=0.1)
    assert router.scale.item() == pytest.approx(0.1)
    with torch.no_grad():
        router.eta.fill_(100.0)
    assert router.scale.item() == pytest.approx(0.5)


def test_a_wrong_number_of_depths_is_refused() -> None:
    with pytest.raises(ValueError, match="2 depths arrived, 3 expected"):
        DepthRouter(3, 8)(torch.randn(2, 2, 5, 8), torch.randn(2, 5, 8))
