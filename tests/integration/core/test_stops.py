"""SIGTERM to a stage, to its launcher or to DVC ends the stage, with one line."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LINE = "stopped; run the same command again to continue from what was saved\n"
STAGE = """
import os, time
from pathlib import Path

def main():
    Path("pid").write_text(str(os.getpid()))
    Path("ready").touch()
    for _ in range(600):
        time.sleep(0.1)
"""
#: A stage that is still importing.
IMPORTING = f"{STAGE}\nmain()\n"


@pytest.fixture(autouse=True)
def not_under_nohup() -> Iterator[None]:
    """A stage under nohup outlives its parent; the tests may run under nohup, their stages do not."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


RUN, LAUNCH = (str(ROOT / "stages" / name) for name in ("run.py", "launch.py"))
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
CONFIGURATION = """
compute_environment: LOCAL_MACHINE
distributed_type: '{kind}'
mixed_precision: 'no'
num_machines: 1
num_processes: {processes}
main_process_port: 0
use_cpu: true
"""


def gone(pid: int) -> bool:
    """Wait until a process has ended, as an adopted one does that nobody waits for."""
    for _ in range(300):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def start(folder: Path, *command: str, stage: str = STAGE, shell: str = "/bin/sh") -> subprocess.Popen:
    """Start a command in a session of its own; return when the stage works."""
    (folder / "stage.py").write_text(stage)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HF_HOME": str(folder), "CUDA_VISIBLE_DEVICES": ""}
    environment |= {"DVC_NO_ANALYTICS": "1", "ACCELERATE_USE_CPU": "true", "SHELL": shell}
    with (folder / "printed").open("w") as printed:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=printed, stderr=printed, start_new_session=True
        )
    end = time.monotonic() + 120
    while not (folder / "ready").exists():
        assert process.poll() is None and time.monotonic() < end, (folder / "printed").read_text()
        time.sleep(0.05)
    return process


def stop(folder: Path, process: subprocess.Popen) -> tuple[int, str]:
    """Send SIGTERM to the process alone; its exit code as a shell tells it, and what was printed."""
    process.terminate()
    code = process.wait(30)
    assert gone(int((folder / "pid").read_text()))
    return 128 - code if code < 0 else code, (folder / "printed").read_text()


@pytest.mark.parametrize("starter", [RUN, LAUNCH])
@pytest.mark.parametrize("stage", [STAGE, IMPORTING])
def test_a_stage(stage: str, starter: str, tmp_path: Path) -> None:
    process = start(tmp_path, sys.executable, starter, "stage.py", stage=stage)
    assert stop(tmp_path, process) == (143, LINE)


@LINUX
@pytest.mark.parametrize("stage", [STAGE, IMPORTING])
@pytest.mark.parametrize("kind", ["NO", "MULTI_GPU"])
def test_a_launcher(kind: str, stage: str, tmp_path: Path) -> None:
    (tmp_path / "accelerate").mkdir()
    configuration = CONFIGURATION.format(kind=kind, processes=1 + (kind != "NO"))
    (tmp_path / "accelerate" / "default_config.yaml").write_text(configuration)
    process = start(tmp_path, sys.executable, LAUNCH, "stage.py", stage=stage)
    code, printed = stop(tmp_path, process)
    assert code == 143 and LINE in printed and "Traceback" not in printed, printed


@LINUX
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_dvc(number: signal.Signals, shell: str, tmp_path: Path) -> None:
    dvc = shutil.which("dvc")
    if dvc is None:
        pytest.skip("dvc is not installed")
    subprocess.run([dvc, "init", "--no-scm", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / "dvc.yaml").write_text(f"stages:\n  work:\n    cmd: exec python {RUN} stage.py\n")
    process = start(tmp_path, dvc, "repro", shell=shell)
    process.send_signal(number)
    code, printed = stop(tmp_path, process)
    assert code == 128 + number and printed.count(LINE) == 1, printed
