"""The installation that README.md states, into an empty environment: two systems are scored and compared there."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.integration.cli.test_installed import ROOT, clone, score_and_compare

COMMAND = "pip install -c constraints.txt ."


def test_a_clone_in_an_empty_environment_scores_two_systems(tmp_path: Path) -> None:
    assert COMMAND in (ROOT / "README.md").read_text(encoding="utf-8")
    clone(tmp_path)
    programs = tmp_path / "environment" / "bin"
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(programs / command[0]), *command[1:]],
            cwd=tmp_path,
            env=own,
            capture_output=True,
            text=True,
            check=False,
        )

    subprocess.run([sys.executable, "-m", "venv", str(programs.parent)], check=True)
    installed = run(*COMMAND.split())
    if "No matching distribution" in installed.stderr or "connection" in installed.stderr.lower():
        pytest.skip("no package index is reached")
    assert installed.returncode == 0, installed.stderr
    assert run("python", "-c", "import torch").returncode == 1
    score_and_compare(partial(run, "pacer"), tmp_path)
    code = "import pacer, sys; print(pacer.label(['no effusion .'])[0].negative, 'torch' in sys.modules)"
    assert "False" in run("python", "-c", code).stdout
