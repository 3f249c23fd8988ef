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


@pytest.mark.parametrize("variant", ["patchwise", "global", "endpoint"])
def test_it_starts_as_the_endpoint(variant: str) -> None:
    depths, endpoint = states()
    refined, weights = DepthRouter(3, 8, variant=variant)(depths, endpoint)
    assert torch.equal(refined, endpoint)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5))


def test_the_residual_weight_starts_at_its_initial_value_below_its_bound() -> None:
    router = DepthRouter(3, 8, max_scale=0.5, init_scale=0.1)
    assert router.scale.item() == pytest.approx(0.1)
    with torch.no_grad():
        router.eta.fill_(100.0)
    assert router.scale.item() == pytest.approx(0.5)


def test_it_computes_the_papers_equations() -> None:
    """Against the equations written out patch by patch in float64."""
    router, (depths, endpoint) = trained(DepthRouter(3, 8, 6)).double(), states()
    depths, endpoint = depths.double(), endpoint.double()
    refined, weights = router(depths, endpoint)
    for b in range(2):
        for n in range(5):
            u = [router.align[k](router.norms[k](depths[b, k, n])) for k in range(3)]
            pi = torch.softmax(torch.stack([router.route_vector @ u[k] + router.depth_bias[k] for k in range(3)]), 0)
            delta = router.out(router.mix_norm(sum(pi[k] * u[k] for k in range(3))))
            expected = endpoint[b, n] + 0.5 * torch.sigmoid(router.eta) * delta
            torch.testing.assert_close(refined[b, n], expected, rtol=0, atol=1e-9)
            torch.testing.assert_close(weights[b, n], pi, rtol=0, atol=1e-9)


def test_global_weights_are_the_same_everywhere() -> None:
    _, weights = trained(DepthRouter(3, 8, variant="global"))(*states())
    assert torch.equal(weights, weights[0, 0].expand_as(weights))


def test_patchwise_weights_differ_between_patches() -> None:
    _, weights = trained(DepthRouter(3, 8))(*states())
    assert weights.std(1).max() > 1e-3


def test_one_depth_has_all_the_weight() -> None:
    _, weights = trained(DepthRouter(1, 8))(*states(depths=1))
    assert torch.equal(weights, torch.ones(2, 5, 1))


def test_the_endpoint_variant_has_no_parameter() -> None:
    assert list(DepthRouter(3, 8, variant="endpoint").parameters()) == []


def test_a_wrong_number_of_depths_is_refused() -> None:
    depths, endpoint = states(depths=2)
    with pytest.raises(ValueError, match="2 depths arrived, 3 expected"):
        DepthRouter(3, 8)(depths, endpoint)
