from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pacer.model.calibrate import PrefixCalibrator

AVAILABLE = torch.tensor([[False, False], [True, True]])


def calibrator(trained: bool = True, **options) -> PrefixCalibrator:
    torch.manual_seed(0)
    module = PrefixCalibrator(12, rank=4, **options).eval()
    if trained:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    prefix, tokens = torch.randn(2, 7, 12), torch.randn(2, 3, 4, 12)
    tokens[0, 1:] = 0
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]], dtype=torch.bool)
    return prefix, mask, tokens


def test_it_starts_as_the_identity_with_a_gate_of_a_tenth() -> None:
    prefix, mask, tokens = inputs()
    result = calibrator(trained=False)(prefix, mask, tokens, AVAILABLE)
    assert torch.equal(result.prefix, prefix)
    torch.testing.assert_close(result.gate, torch.full((2,), 1 / (1 + 2.718281828**2.2)))


def test_masked_positions_neither_change_nor_influence() -> None:
    module, (prefix, mask, tokens) = calibrator(), inputs()
    clean = module(prefix, mask, tokens, AVAILABLE)
    spoilt = prefix.clone()
    spoilt[~mask] = float("nan")
    result = module(spoilt, mask, tokens, AVAILABLE)
    assert torch.equal(result.gate, clean.gate)
    assert torch.equal(result.prefix[mask], clean.prefix[mask])
    assert torch.equal(clean.residual[~mask], torch.zeros_like(clean.residual[~mask]))


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=5),
    st.sampled_from([float("nan"), float("inf"), 1e38]),
)
def test_absent_sources_reach_neither_the_outputs_nor_the_gradients(sources: list, spoilt: float) -> None:
    module, available = calibrator(), torch.tensor(sources)
    torch.manual_seed(2)
    prefix, mask = torch.randn(len(sources), 5, 12), torch.ones(len(sources), 5, dtype=torch.bool)
    observed = torch.nn.functional.pad(available, (1, 0), value=True)[..., None, None]
    own = torch.randn(len(sources), 3, 4, 12)
    results = []
    for absent in (0.0, spoilt):
        tokens = torch.where(observed, own, absent).requires_grad_()
        module.zero_grad()
        result = module(prefix, mask, tokens, available)
        (result.prefix.square().sum() + result.gate.sum()).backward()
        assert torch.equal(tokens.grad * ~observed, torch.zeros_like(own))
        results.append([*result, tokens.grad, *(parameter.grad for parameter in module.parameters())])
    assert all(torch.equal(clean, other) for clean, other in zip(*results, strict=True))


@pytest.mark.parametrize("cues", ["h", "he", "hz", "hze"])
def test_gate_variants_have_the_same_size_and_ignore_disabled_cues(cues: str) -> None:
    module, full = calibrator(gate_inputs=cues), calibrator()
    assert [p.shape for p in module.parameters()] == [p.shape for p in full.parameters()]
    prefix, mask, tokens = inputs()
    gate = module(prefix, mask, tokens, AVAILABLE).gate
    other_tokens = module(prefix, mask, tokens + 1, AVAILABLE).gate
    assert torch.equal(gate, other_tokens) is ("z" not in cues)
    with torch.no_grad():
        module.availability.weight.add_(1.0)
    assert torch.equal(gate, module(prefix, mask, tokens, AVAILABLE).gate) is ("e" not in cues)
