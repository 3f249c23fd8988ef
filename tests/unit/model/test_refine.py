"""The router with every mixer of ``MIXERS``, so that a new one needs no test of what all of them have in common."""

import pytest
import torch
from torch import Tensor

from pacer.config.model import MIXERS
from pacer.model.mixers import Global
from pacer.model.refine import DepthRouter
from tests.support.models import moved

DEPTHS, PATCHES, WIDTH = 4, 9, 8


@pytest.fixture
def states() -> tuple[Tensor, Tensor]:
    """Depth states [B, K, N, d_v] and endpoint [B, N, d_v]."""
    torch.manual_seed(0)
    return torch.randn(3, DEPTHS, PATCHES, WIDTH), torch.randn(3, PATCHES, WIDTH)


def router_of(variant: str, d_routing: int | None = None) -> DepthRouter:
    torch.manual_seed(1)
    return DepthRouter(DEPTHS, WIDTH, d_routing, variant=variant)


def unreachable(router: DepthRouter, states: tuple[Tensor, Tensor]) -> list[int]:
    """The depths, counted from 0, that training could never use: with an output that is not zero, as after the first
    update, the gradient of what they add to the mixture is zero."""
    moved(router.out)
    router(*states)[0].square().sum().backward()
    return [k for k, align in enumerate(router.align) if not align.weight.grad.any()]


@pytest.mark.parametrize("d_routing", [None, 5])
@pytest.mark.parametrize("variant", MIXERS)
def test_every_mixer_starts_at_the_endpoint_with_every_depth_in_reach(variant: str, d_routing, states) -> None:
    router = router_of(variant, d_routing)
    assert torch.equal(router(*states)[0], states[1])
    assert unreachable(router, states) == []


@pytest.mark.parametrize("variant", [*MIXERS, "endpoint"])
def test_depth_weights_are_shares_and_follow_from_the_image_itself(variant: str, states) -> None:
    """In float64 they differ by rounding only, and so does what is refined."""
    router = moved(router_of(variant), 0.5, seed=2)
    refined, weights = router(*states)
    assert weights.shape == (3, PATCHES, DEPTHS) and (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, PATCHES))
    assert variant == "endpoint" or not torch.equal(refined, states[1])
    single = [router(depths[None], endpoint[None]) for depths, endpoint in zip(*states, strict=True)]
    exact = router.double()(*(each.double() for each in states))
    for place, values in enumerate((refined, weights)):
        torch.testing.assert_close(torch.cat([each[place] for each in single]), values, rtol=1e-5, atol=1e-6)
        assert exact[place].dtype == torch.float64
        torch.testing.assert_close(exact[place].float(), values, rtol=1e-5, atol=1e-6)


class LargestOfTies(Global):
    """The three largest of four: at the start all are equal, and the one that loses the tie gets no gradient."""

    @staticmethod
    def weights(router: DepthRouter, aligned: Tensor) -> Tensor:
        scores = Global.weights(router, aligned)
        chosen = torch.zeros_like(scores).scatter(-1, scores.topk(DEPTHS - 1).indices, 1.0)
        return scores * chosen / (scores * chosen).sum(-1, keepdim=True)


def test_a_mixer_with_a_depth_out_of_reach_is_found(states) -> None:
    router = router_of("global")
    router.mixer = LargestOfTies
    assert len(unreachable(router, states)) == 1


def test_the_residual_weight_starts_at_its_initial_value_below_its_bound() -> None:
    router = DepthRouter(3, 8, max_scale=0.5, init_scale=0.1)
    assert router.scale.item() == pytest.approx(0.1)
    with torch.no_grad():
        router.eta.fill_(100.0)
    assert router.scale.item() == pytest.approx(0.5)


def test_a_wrong_number_of_depths_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected 3 depths \(features.depths\), got 2"):
        DepthRouter(3, 8)(torch.randn(2, 2, 5, 8), torch.randn(2, 5, 8))
