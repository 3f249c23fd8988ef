"""The Makefile works with any make, and setting up says first what prevents it."""

import platform
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cases import listed_cases

REPOSITORY = Path(__file__).parents[3]
MAKEFILE = REPOSITORY / "Makefile"
obstacle = runpy.run_path(str(REPOSITORY / "check_setup.py"))["obstacle"]

#: Programs of the environment that the Makefile uses.
PROGRAMS = "dvc|pytest|ruff|ty|python"
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@needs_make
def test_programs_of_the_environment_are_named_by_their_path() -> None:
    """GNU make 3.81, the one of macOS, looks for programs on the PATH that it was itself started with."""
    targets = re.findall(r"^([a-z-]+):.*##", MAKEFILE.read_text(), re.MULTILINE)
    command = ["make", "--dry-run", "--always-make", "PYTHON=python3", *targets]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    lines = done.stdout.replace("\\\n", " ").splitlines()
    bare = re.compile(rf"(?:^|[;&|({{]|\bdo\b)\s*(?:\w+=\S* )*({PROGRAMS}|pacer|pip|hf)\b")
    assert [line for line in lines if bare.search(line)] == []
    assert {f".venv/bin/{name}" for name in PROGRAMS.split("|")} <= set(re.findall(r"\.venv/bin/\w+", done.stdout))


def test_nothing_stands_against_a_clone_on_a_supported_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    (tmp_path / ".git").mkdir()
    for minor in range(11, 15):
        monkeypatch.setattr(sys, "version_info", (3, minor, 0))
        for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")):
            monkeypatch.setattr(sys, "platform", system)
            monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
            assert obstacle() is None


@pytest.mark.parametrize(("changes", "told"), listed_cases(__file__, "obstacles"))
def test_each_obstacle_is_one_sentence(
    changes: dict[str, object], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for name, value in changes.items():
        monkeypatch.setattr(sys, name, tuple(value) if isinstance(value, list) else value)
    assert told in obstacle() and "\n" not in obstacle()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert changes or obstacle().startswith("git is not on the PATH")
