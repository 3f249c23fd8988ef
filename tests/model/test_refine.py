from __future__ import annotations

import pytest
import torch

from pacer.model.refine import DepthRouter


def states(batch: int = 2, depths: int = 3, patches: int = 5, width: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return (
        torch.randn(batch, depths, patches, width, generator=generator),
        torch.randn(batch, patches, width, generator=generator),
    )


def trained(router: DepthRouter) -> DepthRouter:
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in router.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return router


def test_the_residual_weight_starts_at_its_initial_value_below_its_bound() -> None:
    router = DepthRouter(3, 8, max_scale=0.5, init_scale=0.1)
    assert router.scale.item() == pytest.approx(0.1)
    with torch.no_grad():
        router.eta.fill_(100.0)
    assert router.scale.item() == pytest.approx(0.5)


def test_global_weights_are_the_same_everywhere() -> None:
    _, weights = trained(DepthRouter(3, 8, variant="global"))(*states())
    assert torch.equal(weights, weights[0, 0].expand_as(weights))


def test_patchwise_weights_differ_between_patches() -> None:
    _, weights = trained(DepthRouter(3, 8))(*states())
    assert weights.std(1).max() > 1e-3


def test_the_endpoint_variant_has_no_parameter() -> None:
    assert list(DepthRouter(3, 8, variant="endpoint").parameters()) == []


def test_a_wrong_number_of_depths_is_refused() -> None:
    depths, endpoint = states(depths=2)
    with pytest.raises(ValueError, match="2 depths arrived, 3 expected"):
        DepthRouter(3, 8)(depths, endpoint)
