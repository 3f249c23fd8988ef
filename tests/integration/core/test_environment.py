"""The environment that a command is started in changes neither its output nor whether it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.drive import contents

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "docs" / "examples"
#: What other people's machines, notebooks and clusters set.
STRANGE = {
    "LC_ALL": "tr_TR.UTF-8",
    "TZ": "Asia/Kolkata",
    "PYTHONOPTIMIZE": "1",
    "PYTHONHASHSEED": "7",
    "PYTHONSAFEPATH": "1",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HTTP_PROXY": "http://localhost:9",
    "GIT_DIR": "/nowhere",
    "DVC_NO_ANALYTICS": "1",
    "COLUMNS": "20",
    "NO_COLOR": "1",
    "MPLBACKEND": "module://nowhere.inline",
    "_JAVA_OPTIONS": "-Duser.language=tr -Xmx8m",
    "JAVA_TOOL_OPTIONS": "-Duser.language=tr",
    "JDK_JAVA_OPTIONS": "-Duser.language=tr",
}


def run(code: str, *arguments: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_scores_are_the_same_bytes(tmp_path: Path) -> None:
    files = []
    for name, environment in (("plain", {}), ("strange", STRANGE)):
        out = tmp_path / name / "scores"
        out.parent.mkdir()
        command = "from pacer.cli import main; main()"
        arguments = ["--references", EXAMPLES / "references.csv", "--hypotheses", EXAMPLES / "pacer.csv", "--out", out]
        run(command, "score", *map(str, arguments), **environment)
        files.append(contents(out))
    assert files[0] and files[0] == files[1]


@pytest.mark.parametrize("module", ["charts", "html"])
def test_pictures_need_no_backend(module: str) -> None:
    run(f"import pacer.reporting.{module}", **STRANGE)


def test_a_stage_starts(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("NUMBER = 3\n")
    (tmp_path / "stage.py").write_text("from neighbour import NUMBER\n\n\ndef main():\n    print(NUMBER)\n")
    for starter in ("run.py", "launch.py"):
        command = [sys.executable, str(ROOT / "stages" / starter), str(tmp_path / "stage.py")]
        environment = os.environ | STRANGE | {"PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_a_killed_process_leaves_no_java(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 300\n")
    java.chmod(0o755)
    code = f"from pacer.metrics.nlg import meteor_counts; meteor_counts(['a'], ['a'], {str(java)!r})"
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT)})
    end = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    child = psutil.Process(int((tmp_path / "pid").read_text()))
    process.send_signal(signal.SIGKILL)
    process.wait()
    child.wait(10)
