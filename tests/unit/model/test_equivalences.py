"""What must not matter to the whole model: its start, later tokens, sources that are not there.

"Equal" is bit for bit where the same operations run on tensors of the same shapes. Where shapes differ the order of
sums may differ too, and the tolerance is 1e-5 of the largest number, in float32.
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
from peft.tuners.lora import LoraLayer
from torch import Tensor

from pacer.config.model import MIXERS
from pacer.core.errors import ConfigError
from pacer.model.assemble import build_model
from pacer.model.batch import Batch
from pacer.model.pacer import Pacer
from tests.support.models import moved_model, specification

#: One record of each context, in the order sn, sw, mn, mw, with prompts and targets of different lengths.
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


# ------------------------------------------------------------------------------------------------------------ the start


@pytest.mark.parametrize("variant", MIXERS)
@pytest.mark.parametrize("cues", ["h", "he", "hz", "hze"])
def test_every_variant_starts_as_the_model_without_it(variant: str, cues: str, examples, backbones) -> None:
    batch = examples.batch(ROWS, COMMITS, 0.35)
    full, base = (
        build_model(backbones, specification(refine={"variant": variant}, calibrate={"gate_inputs": cues})).eval()
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


# ---------------------------------------------------------------------------------------------------- target-blindness


def test_a_later_token_changes_no_earlier_logit(examples, backbones) -> None:
    """Bit for bit: the shapes stay the same, and what is masked out of attention has a weight of exactly zero."""
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


# -------------------------------------------------------------------------------------------- absent sources are free


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
        part.register_forward_hook(lambda m, arguments, out, name=name: sizes[name].append(len(arguments[0])))
        for name, part in parts.items()
    ]
    try:
        yield model, sizes
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize("rows", [[0, 1, 2], [9, 0], [18, 0, 1], [27, 28], [27, 0, 18, 9, 10]], ids=str)
def test_only_present_sources_are_read_and_computed(
    rows: list[int], examples, features, backbones, monkeypatch
) -> None:
    """Whatever records name that their context does not have."""
    unused = pl.col("lateral").fill_null("other.jpg"), pl.col("prior_report").fill_null("other .")
    examples.table.frame = examples.table.frame.with_columns(unused)
    records, asked = [examples.table.row(row) for row in rows], []
    for name in ("depth_states", "prior_states"):
        read = getattr(features, name)
        monkeypatch.setattr(features, name, lambda keys, read=read: asked.append(keys) or read(keys))
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
    last.gate_proj.register_forward_hook(lambda module, inputs, out: computed.append(tuple(inputs[0].shape)))
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
        torch.equal(layer.get_base_layer().weight, known) for layer, known in zip(layers, expected, strict=True)
    )


def test_heads_that_do_not_divide_the_width_are_refused(backbones: Path) -> None:
    with pytest.raises(ConfigError, match=r"interface.num_heads \(3\) must divide the width of the vision encoder"):
        build_model(backbones, specification(interface={"num_heads": 3}))
