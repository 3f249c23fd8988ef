"""The Makefile works with any make, and setting up says first what stands against it."""

from __future__ import annotations

import platform
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
MAKEFILE = REPOSITORY / "Makefile"
obstacle = runpy.run_path(str(REPOSITORY / "check_setup.py"))["obstacle"]

SHELL_AND_SYSTEM = {"awk", "echo", "exit", "find", "paste", "python3", "rm", "sed", "test", "touch"}
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def programs(line: str) -> Iterator[str]:
    """First words of the commands of a line; of `for`, those of its body."""
    words = shlex.shlex(line, punctuation_chars=True)  # quoted words keep their quotes
    words.whitespace_split = True
    starts, of_loop = True, False
    for word in words:
        if word in (";", "|", "||", "&&", "(", ")", "{", "}", "do"):
            starts, of_loop = word != ")", False
        elif word == "for":
            of_loop = True
        elif starts and not of_loop and word != "done" and not re.match(r"[A-Za-z_]+=", word):
            yield word
            starts = False


@needs_make
def test_programs_of_the_environment_are_named_by_their_path() -> None:
    """GNU make 3.81, the one of macOS, looks for programs on the PATH that it was itself started with."""
    targets = re.findall(r"^([a-z-]+):.*##", MAKEFILE.read_text(), re.MULTILINE)
    command = ["make", "--dry-run", "--always-make", "PYTHON=python3", *targets]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    lines = done.stdout.replace("\\\n", " ").splitlines()
    used = {program for line in lines if not line.startswith("make") for program in programs(line)}
    inside = {word for word in used if re.match(r"\.venv(-radeval)?/bin/", word)}
    assert {".venv/bin/dvc", ".venv/bin/pytest", ".venv/bin/ruff", ".venv/bin/ty", ".venv/bin/python"} <= inside
    assert used - inside <= SHELL_AND_SYSTEM


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
    (tmp_path / ".git").rmdir()
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")  # a worktree
    assert obstacle() is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"version_info": (3, 15, 0)}, "expected 3.11 to 3.14; name another: make setup PYTHON=python3.12"),
        ({"version_info": (3, 9, 6)}, "expected 3.11 to 3.14"),
        ({"platform": "win32"}, "expected Linux or macOS"),
        ({"platform": "darwin"}, "for Intel Macs"),
        ({}, "git init && git add --all && git commit"),
    ],
)
def test_each_obstacle_is_one_sentence(
    changes: dict[str, object], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for name, value in changes.items():
        monkeypatch.setattr(sys, name, value)
    assert told in obstacle() and "\n" not in obstacle()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert changes or obstacle().startswith("git is not on the PATH")


@needs_make
def test_setting_up_a_folder_without_git_ends_before_anything_is_made(tmp_path: Path) -> None:
    for name in ("Makefile", "check_setup.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    command = ["make", "repro", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode and f"error: {tmp_path} is not a git repository" in done.stderr
    assert not (tmp_path / ".venv").exists()
