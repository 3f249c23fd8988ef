"""What must not matter to the whole model: its start, later tokens, the company of a row, sources that are not there.

"Equal" is bit for bit where the same operations run on tensors of the same shapes. Where shapes differ the order of
sums may differ too, and the tolerance is 1e-5 of the largest number, in float32.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pacer.model.assemble import build_model, load_tokenizer
from pacer.model.interface import SourceInterface
from pacer.model.pacer import Batch, Pacer
from pacer.model.prompt import build_prompt
from pacer.training.examples import Examples, collate
from pacer.training.losses import LossWeights, objective
from pacer.training.trajectory import Span, Trajectory
from tests.support.models import QUERIES, specification
from tests.support.training import record_table

#: One record of each context, in the order sn, sw, mn, mw, with prompts and targets of different lengths.
ROWS = [0, 9, 18, 27]
COMMITS = [True, False, False, True]


def assemble(backbones: Path, trained: bool = True, **groups: dict) -> Pacer:
    """The model with LoRA and Calibrate; ``trained``: with no parameter where its initialisation put it."""
    torch.manual_seed(3)
    model = build_model(backbones, specification(**groups)).eval()
    if trained:
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


@pytest.fixture
def examples(records, anchors, backbones, features) -> Examples:
    table = record_table(records, anchors)
    return Examples(table, load_tokenizer(backbones), features, specification())


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


def assert_same_row(one: Outcome, i: int, other: Outcome, j: int, batch: Batch) -> None:
    """Row ``i`` of one batch is row ``j`` of the other, which ``batch`` describes, up to padding."""
    prefix, length = int(batch.prefix_length[j]), int(batch.length[j])
    assert_near(one.gate[i], other.gate[j])
    assert_near(one.residual[i, :prefix], other.residual[j, :prefix])
    assert_near(one.logits[i, :length], other.logits[j, :length])
    assert not one.residual[i, prefix:].any() and not other.residual[j, prefix:].any()


# ------------------------------------------------------------------------------------------------------------ the start


@pytest.mark.parametrize("variant", ["patchwise", "global"])
@pytest.mark.parametrize("cues", ["h", "he", "hz", "hze"])
def test_every_variant_starts_as_the_model_without_it(variant: str, cues: str, examples, backbones) -> None:
    batch = examples.batch(ROWS, COMMITS, 0.35)
    full = assemble(backbones, False, refine={"variant": variant}, calibrate={"gate_inputs": cues})
    base = assemble(backbones, False, refine={"variant": "endpoint"}, calibrate={"gate_inputs": "none"})
    assert base.calibrator is None and not list(base.router.parameters())
    base.interface.load_state_dict(full.interface.state_dict())  # building a router drew from the generator
    with torch.no_grad():
        plain = base.language.lm_head(base.hidden(base.embed(batch).inputs))
    outcome = run(full, batch)
    assert torch.equal(outcome.logits, plain)
    assert not outcome.residual.any()
    torch.testing.assert_close(outcome.gate, torch.sigmoid(torch.full((4,), -2.2)))


# ---------------------------------------------------------------------------------------------------- target-blindness


def test_no_entry_of_the_calibrated_prefix_has_a_gradient_to_the_target(examples, backbones) -> None:
    """A sum over the prefix might hide gradients that cancel: here every position has a random weight of its own."""
    model, batch = assemble(backbones), examples.batch(ROWS, COMMITS, 0.35)
    embedded = model.embed(batch)
    inputs = embedded.inputs.detach().requires_grad_()
    calibrated, gate, residual = model.calibrate(embedded._replace(inputs=inputs), batch)
    valid = batch.prefix_mask
    for scalar in (
        (calibrated * torch.randn_like(calibrated))[valid].sum(),
        (gate * torch.randn(4)).sum(),
        (residual * torch.randn_like(residual)).sum(),
    ):
        (gradient,) = torch.autograd.grad(scalar, inputs, retain_graph=True)
        assert not gradient[~valid].any()
        assert (gradient[valid].abs().amax(-1) > 0).all()  # and all of the prefix has one


def test_target_embeddings_that_are_not_numbers_leave_the_prefix_as_it_is(examples, backbones) -> None:
    model, batch = assemble(backbones), examples.batch(ROWS, COMMITS, 0.35)
    with torch.no_grad():
        embedded = model.embed(batch)
        clean, gate, _ = model.calibrate(embedded, batch)
        spoilt = torch.where(batch.prefix_mask.unsqueeze(-1), embedded.inputs, float("nan"))
        again, spoilt_gate, residual = model.calibrate(embedded._replace(inputs=spoilt), batch)
    assert torch.equal(clean[batch.prefix_mask], again[batch.prefix_mask]) and torch.equal(gate, spoilt_gate)
    assert residual.isfinite().all()


def test_a_later_token_changes_no_earlier_logit(examples, backbones) -> None:
    """Bit for bit: the shapes stay the same, and what is masked out of attention has a weight of exactly zero."""
    model, batch = assemble(backbones), examples.batch(ROWS, COMMITS, 0.35)
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


# ------------------------------------------------------------------------------------------------ the company of a row


def test_mixed_contexts_compute_what_each_context_computes_alone(examples, backbones) -> None:
    """Twice the four contexts, interleaved, against batches of one context and against every row by itself."""
    model = assemble(backbones)
    rows, commits = [*ROWS, *(row + 2 for row in ROWS)], [*COMMITS, *COMMITS[::-1]]
    batch = examples.batch(rows, commits, 0.35)
    whole = run(model, batch)
    for context in range(4):
        own = [context, context + 4]
        together = run(model, examples.batch([rows[i] for i in own], [commits[i] for i in own], 0.35))
        for place, i in enumerate(own):
            assert_same_row(together, place, whole, i, batch)
            assert_same_row(run(model, examples.batch([rows[i]], [commits[i]], 0.35)), 0, whole, i, batch)


def test_the_side_of_the_padding_does_not_matter(examples, backbones) -> None:
    """Rows moved to the right edge, as generation has them, with a mask and positions that count real tokens."""
    model, batch = assemble(backbones), examples.batch(ROWS, COMMITS, 0.35)
    right = run(model, batch)
    with torch.no_grad():
        inputs, _, _ = model.calibrate(model.embed(batch), batch)
        rows = [row[:length] for row, length in zip(inputs, batch.length)]
        moved = pad_sequence(rows, batch_first=True, padding_side="left")
        mask = pad_sequence(
            [torch.ones(len(row), dtype=torch.long) for row in rows], batch_first=True, padding_side="left"
        )
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        left = model.language(inputs_embeds=moved, attention_mask=mask, position_ids=positions).logits
    for i, length in enumerate(batch.length.tolist()):
        assert_near(left[i, -length:], right.logits[i, :length])


# ------------------------------------------------------------------------------------------------------------ one depth


def test_a_model_with_one_depth_gives_it_all_the_weight(examples, backbones) -> None:
    model = assemble(backbones, features={"depths": [3]})
    batch = examples.batch(ROWS, COMMITS, 0.35)
    batch.frontal, batch.lateral = batch.frontal[:, -1:], batch.lateral[:, -1:]
    with torch.no_grad():
        embedded = model.embed(batch)
    assert list(embedded.depth_weights) == ["frontal", "lateral"]
    assert all((weights == 1).all() for weights in embedded.depth_weights.values())
    before = run(model, batch)
    with torch.no_grad():  # with nothing to choose from, what chooses has no say
        model.router.route_vector.normal_()
        model.router.depth_bias.normal_()
    assert torch.equal(run(model, batch).logits, before.logits)


# ----------------------------------------------------------------------------------------------------- absent sources

ALL = torch.tensor([[False, False], [False, True], [True, False], [True, True]])
NOT_A_NUMBER = [float("nan"), float("inf")]


def interface(**options: Any) -> SourceInterface:
    torch.manual_seed(0)
    return SourceInterface(8, 10, 12, num_queries=3, num_heads=2, d_hidden=16, **options).eval()


def gradients(model: SourceInterface, lateral: Tensor, prior: Tensor, available: Tensor) -> tuple[Tensor, dict]:
    """Tokens and fusion of four rows, and the gradients of all parameters and inputs of their weighted sum."""
    model.zero_grad(set_to_none=True)
    inputs = {
        "frontal": torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(5)),
        "lateral": lateral,
        "prior": prior,
    }
    leaves = {name: states.clone().requires_grad_() for name, states in inputs.items()}
    found = model(**leaves, availability=available, prior_mask=torch.ones(4, 6, dtype=torch.bool))
    tokens, fused = found.tokens, found.fused
    both = torch.cat([tokens.flatten(), fused.flatten()])
    (both * torch.randn(both.shape, generator=torch.Generator().manual_seed(6))).sum().backward()
    own = {name: parameter.grad for name, parameter in model.named_parameters()}
    return both.detach(), own | {name: leaf.grad for name, leaf in leaves.items()}


@pytest.mark.parametrize("filler", NOT_A_NUMBER, ids=str)
@pytest.mark.parametrize("mask_prior_padding", [False, True])
def test_states_of_absent_sources_reach_neither_outputs_nor_gradients(filler: float, mask_prior_padding: bool) -> None:
    model = interface(mask_prior_padding=mask_prior_padding)
    lateral, prior = torch.randn(4, 5, 8), torch.randn(4, 6, 10)
    spoilt_lateral, spoilt_prior = lateral.clone(), prior.clone()
    spoilt_lateral[~ALL[:, 0]], spoilt_prior[~ALL[:, 1]] = filler, filler
    clean, expected = gradients(model, lateral, prior, ALL)
    spoilt, actual = gradients(model, spoilt_lateral, spoilt_prior, ALL)
    assert torch.equal(clean, spoilt) and clean.isfinite().all()
    for name, gradient in expected.items():
        assert gradient is not None and gradient.isfinite().all(), name
        assert torch.equal(gradient, actual[name]), name
    assert not expected["lateral"][~ALL[:, 0]].any() and not expected["prior"][~ALL[:, 1]].any()


@pytest.mark.parametrize("column", [0, 1], ids=["lateral", "prior"])
def test_a_source_that_no_row_has_trains_nothing(column: int) -> None:
    model, name = interface(), ("lateral", "prior")[column]
    available = ALL.clone()
    available[:, column] = False
    states = {"lateral": torch.randn(4, 5, 8), "prior": torch.randn(4, 6, 10)}
    states[name].fill_(float("nan"))
    outputs, found = gradients(model, states["lateral"], states["prior"], available)
    assert outputs.isfinite().all()
    for parameter, gradient in found.items():
        if parameter.startswith(name):
            assert gradient is None, parameter
        else:
            assert gradient is not None and gradient.isfinite().all(), parameter
    # of the fusion, the block that reads the absent slot
    assert not found["fusion.weight"][:, 12 * (column + 1) : 12 * (column + 2)].any()


class Tagged:
    """A feature store that remembers what it was asked for and has no numbers for keys that begin with ``bad``."""

    def __init__(self, features: Any):
        self.features, self.asked = features, defaultdict(list)

    def depth_states(self, image_ids):
        self.asked["images"].append(list(image_ids))
        return self._spoil(self.features.depth_states(image_ids), image_ids)

    def prior_states(self, texts):
        self.asked["texts"].append(list(texts))
        states, mask = self.features.prior_states(texts)
        return self._spoil(states, texts), mask

    def _spoil(self, states: Tensor, keys) -> Tensor:
        states[[key.startswith("bad") for key in keys]] = float("nan")
        return states


def sources(context: str, frontal: str, lateral: str | None, prior: str | None) -> dict[str, Any]:
    """What of a record says where its states are."""
    return {"context": context, "frontal": frontal, "lateral": lateral, "prior_report": prior}


def collated(records: list[dict[str, Any]], store: Tagged, backbones: Path) -> Batch:
    tokenizer = load_tokenizer(backbones)
    prompt = build_prompt(
        tokenizer, dict.fromkeys(("indication", "history")) | {"view": "AP", "sections": "findings"}, commit=True
    )
    ids = torch.tensor([1, *range(300, 300 + 5), 2]).numpy()
    spans = torch.tensor([Span.BOS, *[Span.REPORT] * 5, Span.END], dtype=torch.int8).numpy()
    target = Trajectory(ids, spans, (ids > 1).astype("float32"), commit=False, cut=False)
    many, prefix = len(records), prompt.prefix(1, QUERIES)
    return collate([prefix] * many, [1 + len(prompt.before)] * many, [target] * many, records, store, lambda_q=0.35)


def complete_loss(model: Pacer, batch: Batch) -> Tensor:
    model.zero_grad(set_to_none=True)
    losses = LossWeights(lambda_q=0.35, lambda_tlw=0.75, lambda_cons=0.5, lambda_drift=0.5)
    total = objective(model, batch, losses).total
    total.backward()
    return total.detach()


def test_what_a_context_leaves_out_reaches_neither_logits_nor_gradients(features, backbones) -> None:
    """Records name a lateral view and a previous report that their context does not have, and those are no numbers."""
    model = assemble(backbones)
    clean = [
        sources("sn", "f0", None, None),
        sources("sw", "f1", None, "edema"),
        sources("mn", "f2", "l2", None),
        sources("mw", "f3", "l3", "no edema"),
    ]
    named = [{name: value or "bad" for name, value in record.items()} for record in clean]
    one, two = (collated(records, Tagged(features), backbones) for records in (clean, named))
    assert all(torch.equal(a, b) for a, b in zip(run(model, one), run(model, two), strict=True))
    expected = complete_loss(model, one)
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}
    assert torch.equal(complete_loss(model, two), expected) and expected.isfinite()
    for name, gradient in gradients.items():
        assert gradient.isfinite().all(), name
        assert torch.equal(gradient, model.get_parameter(name).grad), name


def test_numbers_that_are_none_stay_in_their_own_row(features, backbones) -> None:
    """Whatever is wrong with one row's lateral view or previous report, the other rows never see it."""
    model = assemble(backbones)
    contexts = ("sn", "sw", "mn", "mw")
    clean = [sources(c, f"f{i}", f"l{i}", f"text {i}") for i, c in enumerate(contexts)]
    whole = run(model, collated(clean, Tagged(features), backbones))
    for change, row in ({"lateral": "bad"}, 2), ({"prior_report": "bad"}, 1), ({"frontal": "bad"}, 3):
        records = list(clean)
        records[row] = records[row] | change
        outcome = run(model, collated(records, Tagged(features), backbones))
        assert outcome.gate[row].isnan()
        others = [i for i in range(4) if i != row]
        for before, after in zip(whole, outcome, strict=True):
            assert torch.equal(before[others], after[others])


# -------------------------------------------------------------------------------------------- absent sources are free


@contextmanager
def watched(model: Pacer) -> Iterator[dict[str, list[int]]]:
    """Batch sizes that the parts of the model met, by name, call after call."""
    met: dict[str, list[int]] = defaultdict(list)
    parts = {
        "router": model.router,
        "lateral": model.interface.lateral,
        "prior": model.interface.prior,
        "frontal": model.interface.frontal,
    }
    hooks = [
        part.register_forward_hook(lambda m, arguments, out, name=name: met[name].append(len(arguments[0])))
        for name, part in parts.items()
    ]
    try:
        yield met
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize(
    "contexts",
    [["sn"], ["sn", "sn", "sn"], ["sw", "sn"], ["mn", "sn", "sn"], ["mw", "mw"], ["mw", "sn", "mn", "sw", "sw"]],
    ids="-".join,
)
def test_only_present_sources_are_computed(contexts: list[str], features, backbones) -> None:
    model, store = assemble(backbones), Tagged(features)
    records = [sources(c, f"f{i}", f"l{i}", f"text {i}") for i, c in enumerate(contexts)]
    laterals = [f"l{i}" for i, c in enumerate(contexts) if c[0] == "m"]
    priors = [f"text {i}" for i, c in enumerate(contexts) if c[1] == "w"]
    batch = collated(records, store, backbones)
    # neither is a state read, or by an encoder computed, that nothing uses
    assert store.asked["images"] == [[f"f{i}" for i in range(len(contexts))], *([laterals] if laterals else [])]
    assert store.asked["texts"] == ([priors] if priors else [])
    with watched(model) as met, torch.no_grad():
        model.embed(batch)
    assert met == {
        "frontal": [len(contexts)],
        "router": [len(contexts), *([len(laterals)] if laterals else [])],
        **({"lateral": [len(laterals)]} if laterals else {}),
        **({"prior": [len(priors)]} if priors else {}),
    }


def test_the_warm_up_computes_the_frontal_view_alone(examples, backbones) -> None:
    model = assemble(backbones)
    with watched(model) as met, torch.no_grad():
        model.embed(examples.batch(ROWS, COMMITS, 0.35), frontal_only=True)
    assert met == {"frontal": [4], "router": [4]}


def test_running_the_model_leaves_the_batch_alone(examples, backbones) -> None:
    """Batches are made once and used for student and teacher: nothing may write into them."""
    model, batch = assemble(backbones), examples.batch(ROWS, COMMITS, 0.35)
    before = deepcopy(batch)
    complete_loss(model, batch)
    for one, other in ((before, batch), (before.supervision, batch.supervision)):
        for name, value in vars(one).items():
            assert not isinstance(value, torch.Tensor) or torch.equal(value, getattr(other, name)), name


def test_states_that_nobody_wants_are_not_computed_and_the_others_stay(examples, backbones) -> None:
    model, batch = assemble(backbones), examples.batch(ROWS, COMMITS, 0.35)
    met: list[tuple] = []
    last = model.language.model.layers[-1].mlp
    last.gate_proj.register_forward_hook(lambda module, inputs, out: met.append(tuple(inputs[0].shape)))
    with torch.no_grad():
        inputs = model.embed(batch).inputs
        whole, some = model.hidden(inputs), model.hidden(inputs, batch.predicting)
    assert met == [tuple(inputs.shape), (int(batch.predicted.sum()), inputs.shape[2])]
    assert_near(some[batch.predicting], whole[batch.predicting])
    assert not last._forward_hooks and not last._forward_pre_hooks
