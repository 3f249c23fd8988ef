"""What `make gpu` does, on the CPU: every part in miniature, and how a part's end is written down."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import psutil
import pytest
import torch


@pytest.fixture
def gpu(script, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """With another GPU than this machine's."""
    module = script("gpu")
    monkeypatch.setattr(module, "describe", lambda: "NVIDIA Example")
    return module


def sections(results: Path) -> dict[str, str]:
    """The sections of the results by their parts."""
    found = results.read_text().split("\n## ")
    return {text.removeprefix("## ").partition(":")[0]: text for text in found}


def test_every_part_runs_in_miniature(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    run, out, commands = gpu.run, tmp_path / "gpu.md", {}

    def here(name: str, command: Sequence[str], environment: dict[str, str]):
        """The benches in this process, which has imported everything."""
        commands[name] = command
        if name == "tests":
            return run(name, command, environment)
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", command)
            try:
                importlib.import_module(Path(command[0]).stem).main()
            except SystemExit as ended:
                assert ended.code in (0, 1), ended  # 1: a bar that is missed
        torch.set_num_threads(1)
        return gpu.Ended(0, capsys.readouterr().out, "")

    monkeypatch.setattr(gpu, "run", here)
    gpu.main(["--miniature", "--out", str(out)])
    written = sections(out)
    assert list(commands) == list(written) == list(gpu.PARTS)
    for part, row in {
        "tests": " passed, ",
        "steps": "| Calibrate |",
        "decode": "| records/s of `generate` |",
        "features": "| the stage, from JPG files to shards |",
    }.items():
        assert row in written[part], part
    # the protocol is counted with the rates of the parts before it
    assert "--images" in commands["protocol"] and "--records" in commands["protocol"]
    rows = ("features", "Warm-up", "Commit", "Calibrate", "decode", "all of these")
    assert all(f"| {row} |" in written["protocol"] for row in rows)


def test_a_part_that_fails_says_so_and_the_next_goes_on(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hang = (
        "import subprocess, time; child = subprocess.Popen(['sleep', '99']); "
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid)); print('| begun |', flush=True); time.sleep(99)"
    )
    codes = {
        "slow": hang,
        "broken": "print('| half |'); raise ValueError('no room')",
        "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "good": "print('# Title\\n\\n| 1 |')",
    }
    parts = {name: (0.05 if name == "slow" else 1, ("-c", code)) for name, code in codes.items()}
    monkeypatch.setattr(gpu, "PARTS", parts)
    out = tmp_path / "gpu.md"
    with pytest.raises(SystemExit, match="failed: slow, broken, killed"):
        gpu.main(["--out", str(out)])
    written = sections(out)
    assert "ran out of its time" in written["slow"] and "| begun |" in written["slow"]
    assert "exit code 1 (" in written["broken"] and "ValueError: no room" in written["broken"]
    assert "exit code -9 (" in written["killed"]
    assert ", done (" in written["good"] and "### Title" in written["good"]
    child, end = int((tmp_path / "child").read_text()), time.monotonic() + 10
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "a child of a part that ran out of its time lives on"
        time.sleep(0.05)
    gpu.main(["--out", str(out), "good"])
    assert out.read_text().count("## good: ") == 2


def test_unknown_parts_and_machines_without_a_gpu_are_refused(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
) -> None:
    with pytest.raises(SystemExit):
        gpu.main(["nothing"])
    assert "no such part: nothing; there are tests, steps" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(SystemExit, match="no CUDA device was found"):
        gpu.main(["--out", str(tmp_path / "gpu.md")])
