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


def test_a_promised_source_that_is_missing_is_an_error() -> None:
    frontal, _, prior = sources()
    with pytest.raises(ValueError, match="2 rows have a lateral source"):
        interface()(frontal, None, prior, ALL)


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
