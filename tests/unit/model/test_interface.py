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


def test_the_lateral_may_start_as_the_frontal_does() -> None:
    model = interface(fusion_init="identity")
    model.start_from_frontal("lateral")
    frontal, lateral, prior = sources()
    rows = torch.tensor([[True, False]] * 4)
    found = model(frontal, lateral, prior, rows)
    tokens, fused = found.tokens, found.fused
    compressed = model.compress_frontal(frontal)
    own = model.frontal(compressed, lateral)
    torch.testing.assert_close(tokens[:, 1], model.frontal.to_model(own))
    torch.testing.assert_close(fused, model.fusion_norm(tokens[:, 0] + 0.5 * tokens[:, 1]))


def test_the_prior_may_start_as_the_frontal_does_but_for_its_attention() -> None:
    model = interface(fusion_init="identity")
    before = {name: value.clone() for name, value in model.prior.attention.state_dict().items()}
    model.start_from_frontal("prior")
    frontal, lateral, prior = sources()
    found = model(frontal, lateral, prior, torch.tensor([[False, True]] * 4))
    tokens, fused = found.tokens, found.fused
    own = model.prior(model.compress_frontal(frontal), prior)
    torch.testing.assert_close(tokens[:, 2], model.frontal.to_model(own))
    torch.testing.assert_close(fused, model.fusion_norm(tokens[:, 0] + 0.5 * tokens[:, 2]))
    torch.testing.assert_close(model.prior.attention.state_dict(), before)
    torch.testing.assert_close(model.prior.mix.weight, model.frontal.mix.weight)


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


@pytest.mark.parametrize("column", [0, 1], ids=["lateral", "prior"])
def test_a_source_that_no_row_has_trains_nothing(column: int) -> None:
    name, available = ("lateral", "prior")[column], ALL.clone()
    available[:, column] = False
    _, lateral, prior = sources()
    outputs, found = gradients(interface(), lateral, prior, available)
    assert outputs.isfinite().all()
    for parameter, gradient in found.items():
        assert (gradient is None) == parameter.startswith(name), parameter
    # of the fusion, the block that reads the absent slot
    assert not found["fusion.weight"][:, 12 * (column + 1) : 12 * (column + 2)].any()


def test_each_prior_is_read_under_its_own_mask() -> None:
    """Also where the row before has no prior, so that rows and priors are not numbered alike."""
    model, (frontal, lateral, prior) = interface(mask_prior_padding=True), sources()
    lengths = (6, 2, 5, 3)
    mask = torch.arange(6) < torch.tensor(lengths).unsqueeze(1)
    tokens = model(frontal, lateral, prior, ALL, mask).tokens
    for row in (1, 3):
        rows, short = slice(row, row + 1), slice(lengths[row])
        alone = model(frontal[rows], lateral[rows], prior[rows, short], ALL[rows])
        torch.testing.assert_close(tokens[rows], alone.tokens)
