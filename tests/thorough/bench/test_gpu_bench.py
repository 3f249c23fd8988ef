"""What `make gpu` does, on the CPU: every part in miniature, and how parts are chosen, limited and written down."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import psutil
import pytest
import torch

DEVICE = "NVIDIA Example"


@pytest.fixture
def gpu(script, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """With another GPU than this machine's."""
    module = script("gpu")
    monkeypatch.setattr(module, "describe", lambda: (DEVICE, "1 GiB"))
    return module


@pytest.fixture
def small(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Parts that end in every way there is."""
    hang = (
        "import subprocess, time; child = subprocess.Popen(['sleep', '99']); "
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid)); print('| begun |', flush=True); time.sleep(99)"
    )
    codes = {
        "good": "print('# Title\\n\\n| 1 |')",
        "broken": "print('| half |'); raise ValueError('no room')",
        "slow": hang,
        "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "short": "import sys; print('| x | **missed** |'); sys.exit(1)",
        "low": "import sys; sys.exit('missed: half of it')",
    }
    parts = [gpu.Part(name, 0.05 if name == "slow" else 1, ("-c", code)) for name, code in codes.items()]
    monkeypatch.setattr(gpu, "PARTS", parts)
    return tmp_path / "gpu.md"


def test_every_part_runs_in_miniature(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    run, out, commands = gpu.run, tmp_path / "gpu.md", {}

    def here(part, command: Sequence[str], environment: dict[str, str]):
        """The benches in this process, which has imported everything."""
        commands[part.name] = command
        if part.name == "tests":
            return run(part, command, environment)
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", command)
            try:
                importlib.import_module(Path(command[0]).stem).main()
            except SystemExit as ended:
                assert ended.code == 1, ended  # a bar that is missed
        torch.set_num_threads(1)
        return gpu.Ended("done", False, capsys.readouterr().out, "")

    monkeypatch.setattr(gpu, "run", here)
    gpu.main(["--miniature", "--out", str(out)])
    text = out.read_text()
    assert list(commands) == [part.name for part in gpu.PARTS]
    assert " passed, " in gpu.section(text, "tests", gpu.MINIATURES)
    for part, row in {
        "steps": "| Calibrate, PACER's |",
        "decode": "| each side's best |",
        "features": "| the stage, from JPG files to shards |",
        "protocol": "| all of these |",
    }.items():
        assert row in gpu.section(text, part, gpu.MINIATURES), part
    # the protocol is counted with the rates that the parts before it found
    assert "--images" in commands["protocol"] and "--records" in commands["protocol"]
    protocol = gpu.section(text, "protocol", gpu.MINIATURES)
    assert all(f"| {row} |" in protocol for row in ("features", "Warm-up", "Commit", "Calibrate", "decode"))


def test_a_part_that_fails_says_so_and_the_next_goes_on(gpu: ModuleType, small: Path) -> None:
    with pytest.raises(SystemExit, match="failed: broken, slow, killed"):
        gpu.main(["--out", str(small)])
    sections = {part.name: gpu.section(small.read_text(), part.name, DEVICE) for part in gpu.PARTS}
    assert ", done (" in sections["good"] and "### Title" in sections["good"]
    assert "failed with exit code 1" in sections["broken"] and "ValueError: no room" in sections["broken"]
    assert "ran out of its 0.05 minutes" in sections["slow"] and "| begun |" in sections["slow"]
    assert "killed by SIGKILL" in sections["killed"]
    assert "done; a bar is missed (" in sections["short"] and "done; missed: half of it (" in sections["low"]
    child = int((small.parent / "child").read_text())
    end = time.monotonic() + 10
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "a child of a part that ran out of its time lives on"
        time.sleep(0.05)


def test_the_next_call_goes_on_where_this_one_stopped(
    gpu: ModuleType, small: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    gpu.main(["--out", str(small), "good"])
    gpu.main(["--out", str(small), "good"])  # named, so again
    assert small.read_text().count("## good: ") == 2
    # of the rest nothing but the first, which is done whatever time there is
    with pytest.raises(SystemExit, match="failed: broken"):
        gpu.main(["--out", str(small), "--minutes", "0.01"])
    assert "## broken: " in small.read_text() and "## slow: " not in small.read_text()
    capsys.readouterr()
    gpu.main(["--out", str(small), "short"])
    # what failed comes again, after all that has not had its turn
    with pytest.raises(SystemExit, match="failed: slow, killed, broken"):
        gpu.main(["--out", str(small)])
    monkeypatch.setattr(gpu, "PARTS", [replace(part, command=("-c", "print('mended')")) for part in gpu.PARTS])
    gpu.main(["--out", str(small)])
    found = [line.split(":")[0][3:] for line in small.read_text().splitlines() if line.startswith("## ")]
    first, second, third = "good good broken short", "slow killed low broken", "broken slow killed"
    assert " ".join(found) == f"{first} {second} {third}"
    assert "mended" in gpu.section(small.read_text(), "broken", DEVICE)
    before = small.read_text()
    gpu.main(["--out", str(small)])
    assert small.read_text() == before


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
    assert not (tmp_path / "gpu.md").exists()
