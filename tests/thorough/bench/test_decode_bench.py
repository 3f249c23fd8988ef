"""The decoding bench in miniature: its check of equality can fail, and so can its bars."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest


@pytest.fixture
def decode(script) -> ModuleType:
    return script("decode")


def tiny(decode: ModuleType, name: str, **changes):
    return replace(decode.miniature(decode.PRESETS[name]), **changes)


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
    slow = tiny(decode, "cpu", limits={decode.EQUAL: 1e9, decode.BEST: 0.0})
    monkeypatch.setattr(decode, "PRESETS", {"cpu": slow})
    with pytest.raises(SystemExit) as ended:
        decode.main(["--out", str(out)])
    text = out.read_text()
    assert ended.value.code == 1 and text.count("**missed**") == 1 and text.count("| met |") == 1
    monkeypatch.setattr(decode, "same", lambda *_: (_ for _ in ()).throw(decode.Unequal("other")))
    with pytest.raises(SystemExit) as ended:
        decode.main([])
    assert ended.value.code == 2
