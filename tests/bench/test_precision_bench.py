"""The bench of precision in miniature."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "bench"))
    return importlib.import_module("precision")


def test_a_prefix_that_is_not_rounded_keeps_the_residual(bench) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
    language = LlamaForCausalLM(LlamaConfig(vocab_size=97, **sizes)).to(torch.bfloat16).requires_grad_(False).eval()
    case = bench.make_case(language, torch.arange(3, 90))
    rows = bench.prefix_rows(language, case)
    assert len(rows) == len(bench.RESIDUALS) * len(bench.WAYS)
    lost = [float(row[1].rstrip("%")) for row in rows]
    assert lost[2] == lost[5] == 0
    assert min(lost[:2]) > 20 and min(lost[3:5]) > 1  # of a residual that is ten times as large less is lost
    costs = bench.cost_rows(language, case, bench.OneCore(bench.CPU, torch.device("cpu")), 1)
    assert [row[0] for row in costs] == list(bench.WAYS[1:])


def test_a_step_is_timed_in_both_types(bench, monkeypatch) -> None:
    monkeypatch.setattr(bench, "SIZES", ((64, 1, 97),))
    ((name, *times),) = bench.step_rows(torch.device("cpu"), 1)
    assert name == "64 × 1" and float(times[0]) > 0 and float(times[1]) > 0
