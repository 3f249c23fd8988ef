"""The benches of training and decoding in miniature: every bar is judged, and sides that differ are not timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
import torch

Script = Callable[[str], ModuleType]


@pytest.fixture
def untimed(script: Script, monkeypatch: pytest.MonkeyPatch) -> Script:
    """The scripts, where timing is a failure."""
    for name in ("train", "decode"):
        monkeypatch.setattr(script(name), "in_turns", lambda *_: pytest.fail("timed"))
    return script


def training_bench(script: Script, preset: str):
    shapes = script("shapes")
    return script("measuring").Bench(shapes.miniature(shapes.PRESETS[preset]), torch.device("cpu"))


def decoding_bench(script: Script, preset: str, **changes: object):
    decode = script("decode")
    return decode.Bench(replace(decode.miniature(decode.PRESETS[preset]), **changes))


def test_every_bar_is_judged(script: Script) -> None:
    train, shapes = script("train"), script("shapes")
    preset = shapes.miniature(shapes.PRESETS["cpu"])
    bench = script("measuring").Bench(preset, torch.device("cpu"))
    assert "nan" not in "".join(train.measure_steps(bench))
    assert {bar[0] for bar in bench.bars} == set(preset.limits)


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_engines_that_differ_are_not_timed(untimed: Script, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    decode = untimed("decode")

    class Other(decode.BeamSearch):
        def __call__(self, prefixes):
            for number, tokens in super().__call__(prefixes):
                yield number, [*tokens[:-1], tokens[-1] - 1]

    monkeypatch.setattr(decode, "BeamSearch", Other)
    with pytest.raises(decode.Unequal, match="before timing: tokens of 2 of 2 records"):
        decode.measure(decoding_bench(untimed, name))


def test_half_precision_presets_are_compared_in_float32_first(untimed: Script, monkeypatch) -> None:
    losses = untimed("steps").commit_losses

    def nearly(model, batch):  # half precision would not notice
        return {name: 1.0001 * part for name, part in losses(model, batch).items()}

    monkeypatch.setattr(untimed("steps"), "commit_losses", nearly)
    with pytest.raises(untimed("measuring").Unequal, match="float32"):
        untimed("train").measure_steps(training_bench(untimed, "gpu"))


def test_values_that_are_missing_or_not_finite_are_unequal(script: Script) -> None:
    measuring, one, nan = script("measuring"), torch.ones(2), torch.tensor([1.0, float("nan")])
    measuring.assert_close("same", {"a": one}, {"a": one}, 1e-6)
    for ours, theirs in (({"a": one}, {"b": one}), ({"a": nan}, {"a": one}), ({"a": one}, {"a": nan})):
        with pytest.raises(measuring.Unequal):
            measuring.assert_close("other", ours, theirs, 1e-6)
