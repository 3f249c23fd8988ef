"""The features bench in miniature: its parts run on both presets' code, and its bars can be missed."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("features")


@pytest.mark.parametrize("name", ["cpu", "gpu"])
@pytest.mark.parametrize("limit", [0.0, 99.0])
def test_speed_runs_and_its_bars_can_be_missed(bench: ModuleType, name: str, limit: float) -> None:
    preset = replace(bench.miniature(bench.PRESETS[name]), limits=(limit, limit))
    missed: list[str] = []
    text = "\n".join(bench.measure_speed(preset, missed))
    assert "bare forward of the encoder" in text and bool(missed) == bool(limit)


def test_memory_is_compared(bench: ModuleType) -> None:
    missed: list[str] = []
    text = "\n".join(bench.measure_memory(bench.miniature(bench.PRESETS["cpu"]), missed))
    assert "| 16 |" in text and not missed


def test_without_a_run_the_types_are_left_out(bench: ModuleType, tmp_path: Path) -> None:
    assert "Left out" in bench.measure_types(tmp_path)[0]
