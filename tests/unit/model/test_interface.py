import pytest
import torch

from pacer.model.batch import RefinedSources
from pacer.model.interface import SourceInterface


def interface(**options) -> SourceInterface:
    torch.manual_seed(0)
    return SourceInterface(8, 10, 12, num_queries=3, num_heads=2, d_hidden=16, **options).eval()


def sources() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(4, 5, 8), torch.randn(4, 5, 8), torch.randn(4, 6, 10)


def observed(lateral: list[bool], prior: list[bool]) -> RefinedSources:
    """Four rows, of which these have the lateral view and the previous report."""
    frontal, *others = sources()
    available = torch.tensor([lateral, prior]).T
    rows = [own.nonzero().squeeze(1) for own in available.unbind(1)]
    states = [own[places] if len(places) else None for own, places in zip(others, rows, strict=True)]
    return RefinedSources(
        availability=available,
        frontal=frontal,
        lateral=states[0],
        lateral_rows=rows[0] if any(lateral) else None,
        prior=states[1],
        prior_rows=rows[1] if any(prior) else None,
    )


def test_identity_fusion_starts_as_the_normalised_frontal_slot() -> None:
    model = interface(fusion_init="identity")
    found = model(observed([False, False, True, True], [False, True, False, True]))
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
    found = model(observed([slot == 1] * 4, [slot == 2] * 4))
    reader = model.frontal if source == "lateral" else part
    own = reader(model.compress_frontal(states["frontal"]), states[source])
    torch.testing.assert_close(found.tokens[:, slot], model.frontal.to_model(own))
    torch.testing.assert_close(found.fused, model.fusion_norm(found.tokens[:, 0] + 0.5 * found.tokens[:, slot]))
    if source == "prior":
        torch.testing.assert_close(part.attention.state_dict(), before)
        torch.testing.assert_close(part.mix.weight, model.frontal.mix.weight)


@pytest.mark.parametrize("absent", ["lateral", "prior"])
def test_an_absent_source_gets_no_gradient_at_all(absent: str) -> None:
    model, available = interface(), {"lateral": [True] * 4, "prior": [True] * 4}
    found = model(observed(**available | {absent: [False] * 4}))
    (found.tokens.square().sum() + found.fused.sum()).backward()
    slot = ("frontal", "lateral", "prior").index(absent)
    assert not found.tokens[:, slot].any()
    missing = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert missing == {name for name, _ in model.named_parameters() if name.startswith(f"{absent}.")}
