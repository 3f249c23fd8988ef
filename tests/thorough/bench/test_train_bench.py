"""The training bench in miniature: every part runs on both presets' code, and its checks of equality can fail."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from transformers import LlamaConfig


@pytest.fixture
def shapes(script) -> ModuleType:
    return script("shapes")


@pytest.fixture
def measuring(script) -> ModuleType:
    return script("measuring")


@pytest.fixture
def steps(script) -> ModuleType:
    return script("steps")


@pytest.fixture
def train(script) -> ModuleType:
    return script("train")


def tiny(shapes: ModuleType, name: str):
    return shapes.miniature(shapes.PRESETS[name])


def test_every_part_runs_and_every_bar_is_judged(shapes, train) -> None:
    preset = tiny(shapes, "cpu")
    sections = train.run(preset, list(train.PARTS))
    assert {bar[0] for section in sections for bar in section.bars} == set(preset.limits)
    assert "nan" not in train.report(preset, sections, "python bench/train.py", 0.0)


@pytest.mark.parametrize("changed", ["loss", "gradient"])
def test_heads_that_differ_are_not_timed(script, shapes, measuring, train, monkeypatch, changed) -> None:
    heads = script("heads")

    def other(case):
        loss = heads.our_head(case)
        return 1.001 * loss if changed == "loss" else 1.001 * loss - 0.001 * loss.detach()

    monkeypatch.setitem(heads.HEADS, "ours", other)
    monkeypatch.setattr(train, "in_turns", lambda *_: pytest.fail("timed"))
    with pytest.raises(measuring.Unequal, match=changed):
        train.measure_head(measuring.Bench(tiny(shapes, "cpu"), torch.device("cpu")))


@pytest.mark.parametrize(
    ("phase", "term"),
    [
        *(("commit", term) for term in ("trajectory", "emphasis")),
        *(("calibrate", term) for term in ("trajectory", "emphasis", "consistency", "drift")),
    ],
)
@pytest.mark.parametrize("changed", ["loss", "gradient"])
def test_steps_that_differ_are_not_timed(shapes, measuring, steps, train, monkeypatch, phase, term, changed) -> None:
    losses = getattr(steps, f"{phase}_losses")

    def other(model, batch):
        parts = losses(model, batch)
        parts[term] = 1.1 * parts[term] if changed == "loss" else 1.1 * parts[term] - 0.1 * parts[term].detach()
        return parts

    monkeypatch.setattr(steps, f"{phase}_losses", other)
    monkeypatch.setattr(train, "in_turns", lambda *_: pytest.fail("timed"))
    bench = measuring.Bench(tiny(shapes, "cpu"), torch.device("cpu"))
    with pytest.raises(measuring.Unequal, match=changed):
        train.compared_steps(bench, steps.COMMIT if phase == "commit" else steps.CALIBRATE, [shapes.PACERS])


def test_half_precision_presets_are_compared_in_float32_first(shapes, measuring, steps, train, monkeypatch) -> None:
    losses = steps.commit_losses

    def nearly(model, batch):  # half precision would not notice
        return {name: 1.0001 * part for name, part in losses(model, batch).items()}

    monkeypatch.setattr(steps, "commit_losses", nearly)
    with pytest.raises(measuring.Unequal, match="float32"):
        train.measure_steps(measuring.Bench(tiny(shapes, "gpu"), torch.device("cpu")))


def test_values_that_are_missing_or_not_finite_are_unequal(measuring) -> None:
    one, nan = torch.ones(2), torch.tensor([1.0, float("nan")])
    measuring.assert_close("same", {"a": one}, {"a": one}, 1e-6)
    for ours, theirs in (({"a": one}, {"b": one}), ({"a": nan}, {"a": one}), ({"a": one}, {"a": nan})):
        with pytest.raises(measuring.Unequal):
            measuring.assert_close("other", ours, theirs, 1e-6)


def test_flops_by_hand(shapes) -> None:
    config = LlamaConfig(hidden_size=2, intermediate_size=3, num_hidden_layers=1, vocab_size=5, num_attention_heads=1)
    weights = 4 * 2 * 2 + 3 * 2 * 3
    linear, attention, head = 2 * weights * (3 + 4), 2 * 2 * (9 + 16), 2 * 2 * 5 * 6
    assert shapes.language_flops(config, [3, 4], 6) == 2 * linear + 3 * attention + 2 * head
    assert shapes.language_flops(config, [3, 4], 6, forwards=2) == 3 * linear + 4 * attention + 3 * head
