"""The parts of `make gpu`, each in miniature on the CPU, as its command runs it."""

import runpy
import sys
from pathlib import Path

import gpu as gpu_bench
import pytest
import torch

from tests.support.cases import listed_cases
from tests.support.repository import ROOT


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("part", "row"), listed_cases(__file__, "every_bench_runs_in_miniature"))
def test_every_bench_runs_in_miniature(
    part: str, row: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, option, preset = gpu_bench.PARTS[part][1]
    assert (option, preset) == ("--preset", "gpu")
    out, threads = tmp_path / "results.md", torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", [path, option, "miniature", "--out", str(out)])
    runpy.run_path(str(ROOT / path), run_name="__main__")
    torch.set_num_threads(threads)
    assert row in out.read_text()
