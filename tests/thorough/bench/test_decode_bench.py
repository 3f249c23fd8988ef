"""The decoding bench in miniature: every bar is measured, and its check of equality can fail."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def decode(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("decode")


def tiny(decode: ModuleType, name: str, **changes):
    """The preset in miniature."""
    return replace(decode.miniature(decode.PRESETS[name]), **changes)


def test_every_bar_is_measured(decode) -> None:
    preset = tiny(decode, "cpu")
    bench = decode.Bench(preset)
    lines, values = decode.measure(bench)
    text = decode.report(bench, lines, values, "python bench/decode.py", 0.0)
    assert all(f"| {bar} | ≥ {limit:.3g} |" in text for bar, limit in preset.limits.items())
    assert set(values) >= set(preset.limits) and all(value > 0 for value in values.values())
    assert "nan" not in text


def test_weights_and_states_of_a_step_by_hand(decode) -> None:
    bench = decode.Bench(tiny(decode, "gpu"))
    layer = 2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 24 + 2 * 16
    assert bench.weight_bytes() == 2 * (3 * layer + 16 + 61 * 16)
    assert bench.node_bytes() == 2 * (2 * 3 * 2 * 4)


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_engines_that_differ_are_not_timed(decode, monkeypatch, name) -> None:
    class Other(decode.BeamSearch):
        def __call__(self, prefixes):
            for number, tokens in super().__call__(prefixes):
                yield number, [*tokens[:-1], tokens[-1] - 1]

    monkeypatch.setattr(decode, "BeamSearch", Other)
    monkeypatch.setattr(decode, "in_turns", lambda *_: pytest.fail("timed"))
    with pytest.raises(decode.Unequal, match="before timing: tokens of 2 of 2 records"):
        decode.measure(decode.Bench(tiny(decode, name)))


def test_a_missed_bar_and_other_tokens_are_exit_codes(decode, monkeypatch, tmp_path) -> None:
    out = tmp_path / "results.md"
    slow = tiny(decode, "cpu", limits={decode.EQUAL: 1e9})
    monkeypatch.setattr(decode, "PRESETS", {"cpu": slow})
    with pytest.raises(SystemExit) as ended:
        decode.main(["--out", str(out)])
    assert ended.value.code == 1 and "**missed**" in out.read_text()
    monkeypatch.setattr(decode, "same", lambda *_: (_ for _ in ()).throw(decode.Unequal("other")))
    with pytest.raises(SystemExit) as ended:
        decode.main([])
    assert ended.value.code == 2
