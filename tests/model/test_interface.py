from __future__ import annotations

import pytest
import torch

from pacer.model.interface import SourceInterface

ALL = torch.tensor([[False, False], [False, True], [True, False], [True, True]])


def interface(**options) -> SourceInterface:
    torch.manual_seed(0)
    return SourceInterface(8, 10, 12, num_queries=3, num_heads=2, d_hidden=16, **options).eval()


def sources() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(4, 5, 8), torch.randn(4, 5, 8), torch.randn(4, 6, 10)


def test_absent_slots_are_zero_and_present_ones_are_not() -> None:
    found = interface()(*sources(), ALL)
    tokens, fused = found.tokens, found.fused
    assert tokens.shape == (4, 3, 3, 12) and fused.shape == (4, 3, 12)
    present = tokens.abs().sum((2, 3)) > 0
    expected = torch.tensor([[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]], dtype=torch.bool)
    assert torch.equal(present, expected)


def test_identity_fusion_starts_as_the_normalised_frontal_slot() -> None:
    model = interface(fusion_init="identity")
    found = model(*sources(), ALL)
    tokens, fused = found.tokens, found.fused
    torch.testing.assert_close(fused, model.fusion_norm(tokens[:, 0]))


def test_the_lateral_may_start_as_the_frontal_does() -> None:
    model = interface(fusion_init="identity")
    model.start_from_frontal("lateral", share=0.5)
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
    model.start_from_frontal("prior", share=0.25)
    frontal, lateral, prior = sources()
    found = model(frontal, lateral, prior, torch.tensor([[False, True]] * 4))
    tokens, fused = found.tokens, found.fused
    own = model.prior(model.compress_frontal(frontal), prior)
    torch.testing.assert_close(tokens[:, 2], model.frontal.to_model(own))
    torch.testing.assert_close(fused, model.fusion_norm(tokens[:, 0] + 0.25 * tokens[:, 2]))
    torch.testing.assert_close(model.prior.attention.state_dict(), before)
    torch.testing.assert_close(model.prior.mix.weight, model.frontal.mix.weight)


def test_prior_padding_takes_part_only_as_upstream_has_it() -> None:
    frontal, lateral, prior = sources()
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[:, 3:] = False
    other = prior.clone()
    other[:, 3:] += 1.0
    for masked in (False, True):
        model = interface(mask_prior_padding=masked)
        one, two = (model(frontal, lateral, states, ALL, mask).fused for states in (prior, other))
        assert torch.equal(one, two) is masked


def test_a_promised_source_that_is_missing_is_an_error() -> None:
    frontal, _, prior = sources()
    with pytest.raises(ValueError, match="2 rows have a lateral source"):
        interface()(frontal, None, prior, ALL)
