"""The router with every mixer of ``MIXERS``, the interface, the calibrator; and what must not
matter to the model.

"Equal" is bit for bit where the same operations run on tensors of the same shapes. Where shapes
differ the order of sums may differ too, and the tolerance is 1e-5 of the largest number, in
float32.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft.tuners.lora import LoraLayer
from torch import Tensor

from pacer.config.model import MIXERS
from pacer.core.errors import ConfigError
from pacer.model.assemble import build_model
from pacer.model.batch import Batch, RefinedSources
from pacer.model.calibrate import PrefixCalibrator
from pacer.model.interface import SourceInterface
from pacer.model.pacer import Pacer
from pacer.model.refine import DepthRouter, Global, Patchwise, Router, build_router
from tests.support.models import moved, moved_model, specification

DEPTHS, PATCHES, WIDTH = 4, 9, 8


@pytest.fixture
def states() -> tuple[Tensor, Tensor]:
    """Depth states [B, K, N, d_v] and endpoint [B, N, d_v]."""
    torch.manual_seed(0)
    return torch.randn(3, DEPTHS, PATCHES, WIDTH), torch.randn(3, PATCHES, WIDTH)


def router_of(variant: str, d_routing: int | None = None) -> Router:
    torch.manual_seed(1)
    return build_router(variant, DEPTHS, WIDTH, d_routing)


def unreachable(router: DepthRouter, states: tuple[Tensor, Tensor]) -> list[int]:
    """The depths, counted from 0, that training could never use: with an output that is not zero,
    as after the first update, the gradient of what they add to the mixture is zero."""
    moved(router.out)
    router(*states)[0].square().sum().backward()
    return [k for k, align in enumerate(router.align) if not align.weight.grad.any()]


@pytest.mark.parametrize("d_routing", [None, 5])
@pytest.mark.parametrize("variant", MIXERS)
def test_every_mixer_starts_at_the_endpoint_with_every_depth_in_reach(
    variant: str, d_routing, states
) -> None:
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
    single = [
        router(depths[None], endpoint[None]) for depths, endpoint in zip(*states, strict=True)
    ]
    exact = router.double()(*(each.double() for each in states))
    for place, values in enumerate((refined, weights)):
        torch.testing.assert_close(
            torch.cat([each[place] for each in single]), values, rtol=1e-5, atol=1e-6
        )
        assert exact[place].dtype == torch.float64
        torch.testing.assert_close(exact[place].float(), values, rtol=1e-5, atol=1e-6)


class LargestOfTies(Global):
    """The three largest of four: at the start all are equal, and the one that loses the tie gets no
    gradient."""

    def weights(self, aligned: Tensor) -> Tensor:
        scores = super().weights(aligned)
        chosen = torch.zeros_like(scores).scatter(-1, scores.topk(DEPTHS - 1).indices, 1.0)
        return scores * chosen / (scores * chosen).sum(-1, keepdim=True)


def test_a_mixer_with_a_depth_out_of_reach_is_found(states) -> None:
    assert len(unreachable(LargestOfTies(DEPTHS, WIDTH), states)) == 1


def test_the_residual_weight_starts_at_its_initial_value_below_its_bound() -> None:
    router = Patchwise(3, 8, max_scale=0.5, init_scale=0.1)
    assert router.scale.item() == pytest.approx(0.1)
    with torch.no_grad():
        router.eta.fill_(100.0)
    assert router.scale.item() == pytest.approx(0.5)


def test_a_wrong_number_of_depths_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected 3 depths \(features.depths\), got 2"):
        Patchwise(3, 8)(torch.randn(2, 2, 5, 8), torch.randn(2, 5, 8))


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
    states = [
        own[places] if len(places) else None for own, places in zip(others, rows, strict=True)
    ]
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
    torch.testing.assert_close(
        found.fused, model.fusion_norm(found.tokens[:, 0] + 0.5 * found.tokens[:, slot])
    )
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
    assert missing == {
        name for name, _ in model.named_parameters() if name.startswith(f"{absent}.")
    }


def calibrator() -> PrefixCalibrator:
    torch.manual_seed(0)
    return moved(PrefixCalibrator(12, rank=4).eval(), 0.3)


def test_dropout_is_in_the_bottleneck() -> None:
    """With one dimension there, a token's correction is dropped as a whole or not at all."""
    torch.manual_seed(3)
    module = PrefixCalibrator(12, rank=1, dropout=0.5).train()
    torch.nn.init.normal_(module.up.weight)
    mask, available = torch.ones(4, 25, dtype=torch.bool), torch.ones(4, 2, dtype=torch.bool)
    dropped = (
        module(torch.randn(4, 25, 12), mask, torch.randn(4, 3, 4, 12), available).residual == 0
    )
    assert torch.equal(dropped.any(-1), dropped.all(-1)) and 20 < dropped.all(-1).sum() < 80


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=5),
    st.sampled_from([float("nan"), float("inf"), 1e38]),
)
def test_absent_sources_reach_neither_the_outputs_nor_the_gradients(
    sources: list, spoilt: float
) -> None:
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
        results.append(
            [*result, tokens.grad, *(parameter.grad for parameter in module.parameters())]
        )
    assert all(torch.equal(clean, other) for clean, other in zip(*results, strict=True))


#: One record of each context, in the order sn, sw, mn, mw, with prompts and targets of different
#: lengths.
ROWS = [0, 9, 18, 27]
COMMITS = [True, False, False, True]


class Outcome(NamedTuple):
    gate: Tensor
    residual: Tensor
    logits: Tensor


@torch.no_grad()
def run(model: Pacer, batch: Batch) -> Outcome:
    inputs, gate, residual = model.calibrate(model.embed(batch), batch)
    assert gate is not None and residual is not None
    return Outcome(gate, residual, model.language.lm_head(model.hidden(inputs)))


def assert_near(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-5 * other.abs().max().item())


# ------------------------------------------------------------------------------------------
# the start


@pytest.mark.parametrize("variant", MIXERS)
@pytest.mark.parametrize("cues", ["h", "he", "hz", "hze"])
def test_every_variant_starts_as_the_model_without_it(
    variant: str, cues: str, examples, backbones
) -> None:
    batch = examples.batch(ROWS, COMMITS, 0.35)
    full, base = (
        build_model(
            backbones, specification(refine={"variant": variant}, calibrate={"gate_inputs": cues})
        ).eval()
        for variant, cues in ((variant, cues), ("endpoint", "none"))
    )
    assert base.calibrator is None and not list(base.router.parameters())
    for part in ("interface", "language"):  # building a router drew from the generator
        getattr(base, part).load_state_dict(getattr(full, part).state_dict())
    with torch.no_grad():
        plain = base.language.lm_head(base.hidden(base.embed(batch).inputs))
    outcome = run(full, batch)
    assert torch.equal(outcome.logits, plain)
    assert not outcome.residual.any()
    torch.testing.assert_close(outcome.gate, torch.sigmoid(torch.full((4,), -2.2)))


# ------------------------------------------------------------------------------------------
# target-blindness


def test_a_later_token_changes_no_earlier_logit(examples, backbones) -> None:
    """Bit for bit: the shapes stay the same, and what is masked out of attention has a weight of
    exactly zero."""
    model, batch = moved_model(backbones), examples.batch(ROWS, COMMITS, 0.35)
    before = run(model, batch)
    start = int(batch.prefix_length.min())
    for position in range(start, batch.ids.shape[1]):
        target = (batch.prefix_length <= position) & (position < batch.length)
        ids = batch.ids.clone()
        ids[target, position] = (ids[target, position] + 7) % 500
        after = run(model, replace(batch, ids=ids))
        assert torch.equal(after.gate, before.gate) and torch.equal(after.residual, before.residual)
        assert torch.equal(after.logits[:, :position], before.logits[:, :position])
        changed = (after.logits[:, position] != before.logits[:, position]).any(-1)
        assert torch.equal(changed, target)


# ------------------------------------------------------------------------------------------
# absent sources are free


@contextmanager
def watched(model: Pacer) -> Iterator[tuple[Pacer, dict[str, list[int]]]]:
    """The model, and the batch sizes that its parts compute, by name, call after call."""
    sizes: dict[str, list[int]] = defaultdict(list)
    parts = {
        "router": model.router,
        "lateral": model.interface.lateral,
        "prior": model.interface.prior,
        "frontal": model.interface.frontal,
    }
    hooks = [
        part.register_forward_hook(
            lambda m, arguments, out, name=name: sizes[name].append(len(arguments[0]))
        )
        for name, part in parts.items()
    ]
    try:
        yield model, sizes
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize(
    "rows", [[0, 1, 2], [9, 0], [18, 0, 1], [27, 28], [27, 0, 18, 9, 10]], ids=str
)
def test_only_present_sources_are_read_and_computed(
    rows: list[int], examples, features, backbones, monkeypatch
) -> None:
    """Whatever records name that their context does not have."""
    unused = pl.col("lateral").fill_null("other.jpg"), pl.col("prior_report").fill_null("other .")
    examples.table.frame = examples.table.frame.with_columns(unused)
    records, asked = [examples.table.row(row) for row in rows], []
    for name in ("depth_states", "prior_states"):
        read = getattr(features, name)
        monkeypatch.setattr(
            features, name, lambda keys, read=read: asked.append(keys) or read(keys)
        )
    batch = examples.batch(rows, [False] * len(rows), 0.35)
    laterals = [record["lateral"] for record in records if record["context"][0] == "m"]
    priors = [record["prior_report"] for record in records if record["context"][1] == "w"]
    expected = [[record["frontal"] for record in records], laterals, priors]
    assert sorted(asked) == sorted(keys for keys in expected if keys)
    with watched(moved_model(backbones)) as (model, computed), torch.no_grad():
        model.embed(batch)
    assert computed == {
        "frontal": [len(rows)],
        "router": [len(rows), *([len(laterals)] if laterals else [])],
        **({"lateral": [len(laterals)]} if laterals else {}),
        **({"prior": [len(priors)]} if priors else {}),
    }


def test_the_warm_up_computes_the_frontal_view_alone(examples, backbones) -> None:
    with watched(moved_model(backbones)) as (model, computed), torch.no_grad():
        model.embed(examples.batch(ROWS, COMMITS, 0.35), frontal_only=True)
    assert computed == {"frontal": [4], "router": [4]}


def test_states_that_nobody_wants_are_not_computed_and_the_others_stay(examples, backbones) -> None:
    model, batch = moved_model(backbones), examples.batch(ROWS, COMMITS, 0.35)
    computed: list[tuple] = []
    last = model.language.model.layers[-1].mlp
    last.gate_proj.register_forward_hook(
        lambda module, inputs, out: computed.append(tuple(inputs[0].shape))
    )
    with torch.no_grad():
        inputs = model.embed(batch).inputs
        whole, some = model.hidden(inputs), model.predicting_states(inputs, batch)
        assert computed == [tuple(inputs.shape), (len(batch.at), inputs.shape[2])]
        model.hidden(inputs)
    assert computed[0] == computed[2]
    assert_near(some, whole.flatten(0, 1)[batch.at - 1])


def test_an_image_enters_as_the_normalised_state_of_the_last_depth(examples, backbones) -> None:
    """The encoder's own endpoint: a router that was not trained adds nothing to it."""
    built, batch = build_model(backbones, specification()), examples.batch(ROWS, [True] * 4, 0.35)
    with torch.no_grad():
        refined, _ = built.refine(batch.frontal)
        assert torch.equal(refined, built.endpoint_norm(batch.frontal[:, -1]))


def test_lora_is_merged_into_half_precision_with_one_rounding(backbones: Path) -> None:
    built = build_model(backbones, specification(), torch.bfloat16)
    layers = [module for module in built.language.modules() if isinstance(module, LoraLayer)]
    expected = []
    for layer in layers:
        torch.nn.init.normal_(layer.lora_B["default"].weight, std=0.02)
        sums = layer.get_base_layer().weight.float() + layer.get_delta_weight("default")
        expected.append(sums.to(torch.bfloat16))
    built.merge_lora()
    assert layers and all(
        torch.equal(layer.get_base_layer().weight, known)
        for layer, known in zip(layers, expected, strict=True)
    )


def test_heads_that_do_not_divide_the_width_are_refused(backbones: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"interface.num_heads \(3\) must divide the width of the vision encoder"
    ):
        build_model(backbones, specification(interface={"num_heads": 3}))
