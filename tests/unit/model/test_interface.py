from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pacer.model.interface import SourceInterface

ALL = torch.tensor([[False, False], [False, True], [True, False], [True, True]])


def interface(**options) -> SourceInterface:
    torch.manual_seed(0)
    return SourceInterface(8, 10, 12, num_queries=3, num_heads=2, d_hidden=16, **options).eval()


def sources() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(4, 5, 8), torch.randn(4, 5, 8), torch.randn(4, 6, 10)


def test_identity_fusion_starts_as_the_normalised_frontal_slot() -> None:
    model = interface(fusion_init="identity")
    found = model(*sources(), ALL)
    tokens, fused = found.tokens, found.fused
    torch.testing.assert_close(fused, model.fusion_norm(tokens[:, 0]))


@pytest.mark.parametrize(("source", "slot"), [("lateral", 1), ("prior", 2)])
def test_a_source_may_start_as_the_frontal_does(source: str, slot: int) -> None:
    """The previous report but for its attention, whose states are of another width."""
    model = interface(fusion_init="identity")
    part = getattr(model, source)
    before = {name: value.clone() for name, value in part.attention.state_dict().items()}
    model.start_from_frontal(source)
    states = dict(zip(("frontal", "lateral", "prior"), sources(), strict=True))
    found = model(*states.values(), torch.tensor([[slot == 1, slot == 2]] * 4))
    reader = model.frontal if source == "lateral" else part
    own = reader(model.compress_frontal(states["frontal"]), states[source])
    torch.testing.assert_close(found.tokens[:, slot], model.frontal.to_model(own))
    torch.testing.assert_close(found.fused, model.fusion_norm(found.tokens[:, 0] + 0.5 * found.tokens[:, slot]))
    if source == "prior":
        torch.testing.assert_close(part.attention.state_dict(), before)
        torch.testing.assert_close(part.mix.weight, model.frontal.mix.weight)


@pytest.mark.parametrize("given", [0, 1, 3])
def test_a_promised_source_that_is_missing_is_an_error(given: int) -> None:
    frontal, lateral, prior = sources()
    with pytest.raises(ValueError, match=f"2 rows have a lateral source, but states of {given} were passed"):
        interface()(frontal, lateral[:given] if given else None, prior, ALL)


def gradients(model: SourceInterface, lateral: Tensor, prior: Tensor, available: Tensor) -> tuple[Tensor, dict]:
    """Tokens and fusion of four rows, and the gradients of all parameters and inputs of their weighted sum."""
    model.zero_grad(set_to_none=True)
    inputs = {"frontal": sources()[0], "lateral": lateral, "prior": prior}
    leaves = {name: states.clone().requires_grad_() for name, states in inputs.items()}
    found = model(**leaves, availability=available, prior_mask=torch.ones(4, 6, dtype=torch.bool))
    both = torch.cat([found.tokens.flatten(), found.fused.flatten()])
    (both * torch.randn(both.shape, generator=torch.Generator().manual_seed(6))).sum().backward()
    own = {name: parameter.grad for name, parameter in model.named_parameters()}
    return both.detach(), own | {name: leaf.grad for name, leaf in leaves.items()}


@pytest.mark.parametrize("filler", [float("nan"), float("inf")])
@pytest.mark.parametrize("mask_prior_padding", [False, True])
def test_states_of_absent_sources_reach_neither_outputs_nor_gradients(filler: float, mask_prior_padding: bool) -> None:
    model, (_, lateral, prior) = interface(mask_prior_padding=mask_prior_padding), sources()
    spoilt_lateral, spoilt_prior = lateral.clone(), prior.clone()
    spoilt_lateral[~ALL[:, 0]], spoilt_prior[~ALL[:, 1]] = filler, filler
    clean, expected = gradients(model, lateral, prior, ALL)
    spoilt, actual = gradients(model, spoilt_lateral, spoilt_prior, ALL)
    assert torch.equal(clean, spoilt) and clean.isfinite().all()
    for name, gradient in expected.items():
        assert gradient is not None and gradient.isfinite().all() and torch.equal(gradient, actual[name]), name
    assert not expected["lateral"][~ALL[:, 0]].any() and not expected["prior"][~ALL[:, 1]].any()
