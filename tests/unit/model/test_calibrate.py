import torch
from hypothesis import given
from hypothesis import strategies as st

from pacer.model.calibrate import PrefixCalibrator
from tests.support.models import moved


def calibrator() -> PrefixCalibrator:
    torch.manual_seed(0)
    return moved(PrefixCalibrator(12, rank=4).eval(), 0.3)


def test_dropout_is_in_the_bottleneck() -> None:
    """With one dimension there, a token's correction is dropped as a whole or not at all."""
    torch.manual_seed(3)
    module = PrefixCalibrator(12, rank=1, dropout=0.5).train()
    torch.nn.init.normal_(module.up.weight)
    mask, available = torch.ones(4, 25, dtype=torch.bool), torch.ones(4, 2, dtype=torch.bool)
    dropped = module(torch.randn(4, 25, 12), mask, torch.randn(4, 3, 4, 12), available).residual == 0
    assert torch.equal(dropped.any(-1), dropped.all(-1)) and 20 < dropped.all(-1).sum() < 80


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
