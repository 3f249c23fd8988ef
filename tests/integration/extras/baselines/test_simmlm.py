"""SimMLM's experts, gate and ranking term against their formulas, and its training and decoding."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from pacer.config.baselines import BaselineParams, load_baseline_params
from pacer.config.baselines import SimMLM as SimMLMSettings
from pacer.core.errors import ConfigError
from pacer.core.io import read_json
from pacer.extras.baselines.adapted import load_adapted
from pacer.extras.baselines.simmlm import (
    PairedExamples,
    ResidualExperts,
    SimMLM,
    paired_objective,
    train_simmlm,
)
from pacer.model.assemble import load_model, load_tokenizer
from pacer.model.batch import Batch, RefinedSources, TrainingBatch
from pacer.model.pacer import Pacer
from pacer.training.examples import MicroBatch
from pacer.training.losses import EPSILON, LossWeights, Objective, divisors_of
from pacer.training.run import Inputs
from tests.support.models import QUERIES, moved, specification
from tests.support.training import record_table, stepped


def padded(batch: TrainingBatch, values: torch.Tensor) -> torch.Tensor:
    """Values of the predicted tokens [n] in their places, zeros elsewhere [B, T]."""
    return values.new_zeros(batch.ids.numel()).index_copy(0, batch.at, values).view(batch.ids.shape)


D, Q = 24, 3
ROOT = Path(__file__).parents[4]
CONTEXTS = torch.tensor([[False, False], [False, True], [True, False], [True, True]])


def small(micro: BaselineParams) -> SimMLMSettings:
    return micro.simmlm.model_copy(update={"rank": 4, "d_gate": 8})


@pytest.fixture
def model(micro: BaselineParams, parent: Path, backbones: Path) -> SimMLM:
    """With experts that differ from those of the start."""
    model = SimMLM(load_model(parent, backbones)[0], small(micro)).eval()
    moved(model.added, 0.3, seed=1)
    return model


def test_experts_and_gate_follow_their_formulas() -> None:
    experts: Any = moved(ResidualExperts(D, rank=5, d_gate=7), 0.3, seed=1)
    tokens = torch.randn(
        4, 3, Q, D, generator=torch.Generator().manual_seed(0)
    )  # of absent sources too
    rows = {"lateral_rows": torch.tensor([2, 3]), "prior_rows": torch.tensor([1, 3])}
    sources = RefinedSources(availability=CONTEXTS, frontal=torch.empty(0), **rows)
    found, mixture = experts(tokens, sources), experts.mixture(tokens, CONTEXTS)
    weights = dict(experts.named_parameters())
    for row, (lateral, prior) in enumerate(CONTEXTS.tolist()):
        there = [True, lateral, prior]
        u = torch.cat([tokens[row, s].sum(0) / Q if there[s] else torch.zeros(D) for s in range(3)])
        u = (u - u.mean()) / (u.var(unbiased=False) + 1e-5).sqrt() * weights[
            "gate_norm.weight"
        ] + weights["gate_norm.bias"]
        inner = weights["gate_in.weight"] @ u + weights["gate_in.bias"]
        logits = weights["gate_out.weight"] @ F.gelu(inner) + weights["gate_out.bias"]
        odds = [logits[s].exp() if there[s] else torch.zeros(()) for s in range(3)]
        torch.testing.assert_close(mixture[row], torch.stack(odds) / sum(odds))
        for s in range(3):
            normed = F.layer_norm(
                tokens[row, s], (D,), weights[f"norms.{s}.weight"], weights[f"norms.{s}.bias"]
            )
            expert = F.gelu(normed @ weights[f"down.{s}.weight"].T) @ weights[f"up.{s}.weight"].T
            torch.testing.assert_close(
                found[row, s], odds[s] / sum(odds) * expert, atol=1e-5, rtol=1e-4
            )


@pytest.fixture
def examples(
    records: pl.DataFrame, anchors: pl.DataFrame, backbones: Path, features
) -> PairedExamples:
    # targets differ from context to context
    table = record_table(
        records.with_columns(report=pl.col("report") + " effusion in " + pl.col("context")), anchors
    )
    return PairedExamples(table, load_tokenizer(backbones), features, specification())


def two_of_each_draw(examples: PairedExamples) -> np.ndarray:
    return np.concatenate(
        [numbers[:2] for numbers in examples.table.rows("train", ("sn", "sw", "mn", "mw")).values()]
    )


def batch_of(examples: PairedExamples, rows: np.ndarray | None = None) -> Batch:
    """Two pairs of each draw (or the pairs ``rows``), on both routes."""
    rows = two_of_each_draw(examples) if rows is None else rows
    commits = rows % 2 == 0
    return examples.training_batch(MicroBatch(rows, commits), 0.35)


def objective_of(model: SimMLM, examples: PairedExamples, batch: Batch, **given: Any) -> Objective:
    settings = load_baseline_params(ROOT / "baselines" / "micro.yaml").simmlm
    settings = settings.model_copy(update={"alpha": 3.0, "batch_size": 28})
    return paired_objective(
        model, batch, LossWeights(lambda_q=0.35, lambda_tlw=0.75), settings=settings, **given
    )


def test_third_parts_rank_with_the_weights_of_the_second_and_are_not_trained_on(
    examples: PairedExamples,
) -> None:
    batch = batch_of(examples)
    assert len(batch.ids) == 14 * 3
    pairs = two_of_each_draw(examples)
    two = examples.batch(
        examples.pair_table.parts_of(pairs)[:28], (pairs % 2 == 0).tolist() * 2, 0.35
    )
    own, expected = divisors_of(batch), divisors_of(two)
    assert all(own[name] == expected[name] for name in ("trajectory", "emphasis", "consistency"))
    assert batch.consistent == two.consistent
    weights = [padded(batch, getattr(batch, name)) for name in ("omega", "s", "omega_cons")]
    for weight in (*weights, batch.kappa):
        assert weight[:14].any() and weight[14:28].any() and not weight[28:].any()
    ranked = padded(batch, batch.ranked)
    assert not ranked[:14].any() and torch.equal(ranked[14:28], weights[0][14:28])
    assert torch.equal(ranked[28:], ranked[14:28])
    second, third = slice(14, 28), slice(28, None)
    assert torch.equal(batch.ids[third], batch.ids[second])
    assert torch.equal(batch.availability[third], batch.availability[:14])
    assert torch.equal(batch.frontal[third], batch.frontal[:14])
    assert not torch.equal(batch.ids[:14], batch.ids[second])


def test_it_starts_as_the_parent_and_differs_once_the_experts_do(
    micro, parent: Path, backbones: Path, examples: PairedExamples
) -> None:
    frozen = load_model(parent, backbones)[0]
    model = SimMLM(frozen, small(micro)).eval()
    batch = batch_of(examples)
    with torch.no_grad():
        assert torch.equal(model.embed(batch).inputs, frozen.embed(batch).inputs)
        moved(model.added, 0.3, seed=1)
        inputs = model.embed(batch).inputs
        changed = (inputs != frozen.embed(batch).inputs).any(-1)
        places = batch.visual_start.unsqueeze(1) + torch.arange(QUERIES)
        assert changed.gather(1, places).all() and changed.sum() == places.numel()
        refined = frozen.refine_sources(batch)[0]
        tokens = frozen.interface(refined).tokens
        mixed = tokens + model.added(tokens, refined)
        expected = frozen.interface.fusion_norm(
            frozen.interface.fusion(mixed.transpose(1, 2).flatten(2))
        )
    torch.testing.assert_close(model.embed(batch).sources.fused, expected, atol=1e-5, rtol=1e-5)


def plain_objective(model: Pacer, batch: Batch, alpha: float, lambda_tlw: float) -> torch.Tensor:
    """The objective from full logits, sample by sample."""
    logits = model.language(inputs_embeds=model.embed(batch).inputs).logits
    pairs = len(batch.ids) // 3
    nll = torch.zeros(batch.ids.shape)
    means, omega, s = [], padded(batch, batch.omega), padded(batch, batch.s)
    for i in range(len(batch.ids)):
        weight = omega[i if i < 2 * pairs else i - pairs]
        total = 0.0
        for t in range(int(batch.prefix_length[i]) + 1, int(batch.length[i])):
            nll[i, t] = -F.log_softmax(logits[i, t - 1], -1)[batch.ids[i, t]]
            total = total + weight[t] * nll[i, t]
        means.append(total / weight.sum())
    with_fewer, with_more = means[pairs : 2 * pairs], means[2 * pairs :]
    ranking = (
        sum(F.relu(more - fewer) for more, fewer in zip(with_more, with_fewer, strict=True)) / pairs
    )
    trained = slice(0, 2 * pairs)
    trajectory = (omega[trained] * nll[trained]).sum() / (
        omega[trained].sum() + batch.kappa[trained].sum() + EPSILON
    )
    emphasis = (s[trained] * nll[trained]).sum() / (s[trained].sum() + EPSILON)
    return trajectory + lambda_tlw * emphasis + alpha * ranking


def test_the_objective_and_its_gradient_are_those_of_the_formula(
    model: SimMLM, examples: PairedExamples
) -> None:
    batch = batch_of(examples)
    result = objective_of(model, examples, batch)
    assert 0 < result.parts["violated"] < 1  # both sides of the ranking term are met
    result.total.backward()
    found = [parameter.grad.clone() for parameter in model.added.parameters()]
    model.zero_grad()
    expected = plain_objective(model, batch, 3.0, 0.75)
    expected.backward()
    named = (
        result.parts["trajectory"] + 0.75 * result.parts["emphasis"] + 3.0 * result.parts["ranking"]
    )
    assert (
        result.total.item()
        == pytest.approx(expected.item(), rel=1e-5)
        == pytest.approx(named.item(), rel=1e-5)
    )
    for mine, parameter in zip(found, model.added.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad, atol=1e-6, rtol=1e-3)
    assert all(
        p.grad is None for name, p in model.named_parameters() if not name.startswith("added.")
    )


def test_shares_of_two_processes_add_up_to_the_whole(
    model: SimMLM, examples: PairedExamples
) -> None:
    rows = two_of_each_draw(examples)
    whole = objective_of(model, examples, batch_of(examples))
    whole_batch = divisors_of(batch_of(examples))
    shares = [
        objective_of(model, examples, batch_of(examples, part), divisors=whole_batch)
        for part in (rows[::2], rows[1::2])
    ]
    torch.testing.assert_close(shares[0].total + shares[1].total, whole.total)
    for name, value in whole.parts.items():
        torch.testing.assert_close(shares[0].parts[name] + shares[1].parts[name], value)


def test_a_checkpoint_holds_the_added_modules_alone_and_names_its_parent(
    micro, params, inputs, parent: Path, backbones: Path, tmp_path: Path, log
) -> None:
    logged: list = []
    before = (parent / "model.safetensors").read_bytes()
    train_simmlm(
        micro.simmlm, params, Inputs(**inputs, start=parent), tmp_path / "simmlm", log(logged)
    )
    weights = load_file(tmp_path / "simmlm" / "model.safetensors")
    assert weights and all(name.startswith("added.") for name in weights)
    assert any(tensor.any() for name, tensor in weights.items() if ".up." in name)
    record = read_json(tmp_path / "simmlm" / "config.json")
    assert record["phase"] == "simmlm" and record["step"] == 4 and record["parent"]["sha256"]
    assert record["baseline"] == {"settings": micro.simmlm.model_dump(), "made_with": None}
    assert (parent / "model.safetensors").read_bytes() == before
    values = logged[-1][1]
    assert {"loss_ranking", "loss_violated", "validation/mean"} <= set(values)
    model, _ = load_adapted(SimMLM, tmp_path / "simmlm", backbones)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    for name, tensor in weights.items():
        assert torch.equal(dict(model.named_parameters())[name], tensor)
    train_simmlm(micro.simmlm, params, Inputs(**inputs, start=parent), tmp_path / "again", log([]))
    assert (tmp_path / "again/model.safetensors").read_bytes() == (
        tmp_path / "simmlm/model.safetensors"
    ).read_bytes()


def test_no_weight_moves_for_a_source_that_no_row_has(
    micro, params, inputs, parent: Path, tmp_path: Path, log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A micro-batch has one draw of pairs: that of ``sw`` and ``sn`` has no lateral view."""
    rows = enumerate([{"sn", "sw", "mn", "mw"}, {"mn", "mw"}, {"sw", "mw"}])
    blocks = [
        (f"added.{name}", index, contexts)
        for row, contexts in rows
        for name, index in (
            (f"up.{row}.weight", ()),
            ("gate_out.weight", (row,)),
            ("gate_out.bias", (row,)),
        )
    ]
    steps = stepped(monkeypatch, blocks)
    settings = micro.simmlm.model_copy(
        update={"updates": 14, "accumulation": 1, "warmup_updates": 0}
    )
    train_simmlm(settings, params, Inputs(**inputs, start=parent), tmp_path / "simmlm", log([]))
    for (name, index, contexts), taken in zip(blocks, steps, strict=True):
        assert all(moved == bool(present & contexts) for present, moved in taken), (
            name,
            index,
            taken,
        )
        assert len(contexts) == 4 or {moved for _, moved in taken} == {False, True}


def test_an_odd_micro_batch_is_refused(micro) -> None:
    with pytest.raises((ConfigError, ValueError), match="must be even"):
        type(micro.simmlm).model_validate(micro.simmlm.model_dump() | {"batch_size": 3})
