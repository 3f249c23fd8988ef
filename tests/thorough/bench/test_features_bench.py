"""The features bench in miniature: its parts run, and its bars can be missed."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("features")


@pytest.mark.parametrize("limit", [0.0, 99.0])
def test_every_part_runs_and_bars_can_be_missed(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, limit: float
) -> None:
    monkeypatch.setattr(bench, "FLAT", 99.0 - limit)
    preset = replace(bench.miniature(bench.PRESETS["cpu"]), limits=(limit, limit))
    missed: list[str] = []
    text = "\n".join(line for part in bench.PARTS.values() for line in part(preset, missed))
    assert all(row in text for row in ("| bare forward of the encoder |", "| 16 |"))
    assert {"the stage", "the peak"} == {" ".join(line.split()[:2]) for line in missed} if limit else not missed
