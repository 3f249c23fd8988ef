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


def test_it_computes_the_papers_equations() -> None:
    module = calibrator().double()
    prefix, mask, tokens = inputs()
    prefix, tokens = prefix.double(), tokens.double()
    result = module(prefix, mask, tokens, AVAILABLE)
    for b, (state, sources) in enumerate(((0, [0]), (3, [0, 1, 2]))):
        h = prefix[b][mask[b]].mean(0)
        z = torch.stack([tokens[b, s].mean(0) for s in sources]).mean(0)
        e = module.availability.weight[state]
        hidden = torch.nn.functional.gelu(module.gate_in(torch.cat([h, z, e])))
        gate = torch.sigmoid(module.gate_out(hidden))[0]
        torch.testing.assert_close(result.gate[b], gate, rtol=0, atol=1e-9)
        for t in range(7):
            correction = module.up(torch.nn.functional.gelu(module.down(module.norm(prefix[b, t]))))
            expected = prefix[b, t] + (gate * correction if mask[b, t] else 0)
            torch.testing.assert_close(result.prefix[b, t], expected, rtol=0, atol=1e-9)


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
