"""What `make gpu` does, on the CPU: every bench in miniature, and how a part's end is written down."""

import signal
import sys
import time
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


@pytest.mark.parametrize(
    ("part", "row"),
    [
        ("steps", "| Calibrate |"),
        ("decode", "| records/s of `generate` |"),
        ("features", "| the stage, from JPG files to shards |"),
    ],
)
def test_every_bench_runs_in_miniature(
    gpu: ModuleType, script, part: str, row: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, option, preset = gpu.PARTS[part][1]
    assert (option, preset) == ("--preset", "gpu")
    out, threads = tmp_path / "results.md", torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", [path, option, "miniature", "--out", str(out)])
    script(Path(path).stem).main()
    torch.set_num_threads(threads)
    assert row in out.read_text()


def test_sides_that_differ_are_not_timed(script) -> None:
    measuring, one = script("measuring"), torch.ones(3)
    measuring.assert_close("a step", {"loss": one}, {"loss": one * 1.01}, 0.02)
    for ours in ({"loss": one * 1.03}, {"loss": one * torch.nan}, {"loss": one, "drift": one}):
        with pytest.raises(measuring.Unequal, match="a step: "):
            measuring.assert_close("a step", ours, {"loss": one}, 0.02)


@pytest.fixture
def on_terminate():
    """The handler of SIGTERM as it was, afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_when_stopped_it_writes_what_the_part_has_printed(
    gpu: ModuleType, on_terminate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stop = (
        "import os, signal, time; print('| begun |', flush=True); os.kill(os.getppid(), signal.SIGTERM); time.sleep(99)"
    )
    monkeypatch.setattr(gpu, "PARTS", {"long": (1, ("-c", stop)), "next": (1, ("-c", "print(1)"))})
    with pytest.raises(SystemExit, match="failed: long"):
        gpu.main(["--out", str(tmp_path / "gpu.md")])
    written = (tmp_path / "gpu.md").read_text()
    assert ", stopped (" in written and "| begun |" in written and "## next" not in written


def test_a_part_that_fails_says_so_and_the_next_goes_on(
    gpu: ModuleType, on_terminate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
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
    written = {text.removeprefix("## ").partition(":")[0]: text for text in out.read_text().split("\n## ")}
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
