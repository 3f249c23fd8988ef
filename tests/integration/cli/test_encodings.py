"""Text that a terminal cannot show does not end a command or a stage."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


def printed(code: str, encoding: str, *arguments: str) -> str:
    """Standard output of a process whose terminal has this encoding."""
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, encoding=encoding, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("encoding", "shown"), [("utf-8", "R\xf6ntgen \u2013 ?"), ("latin-1", "R\xf6ntgen ? ?"), ("ascii", "R?ntgen ? ?")]
)
def test_what_an_encoding_lacks_is_a_question_mark(encoding: str, shown: str) -> None:
    """Half of a character, from a file name that is not UTF-8, is in none."""
    code = r"from pacer.core.errors import run_cleanly; run_cleanly(lambda: print('R\xf6ntgen \u2013 \udce9'))"
    assert printed(code, encoding) == f"{shown}\n"


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_table_with_dashes_is_shown(encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("studies", "configs", "baselines"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("results", "models"))
    for name in ("dvc.yaml", "params.yaml"):
        shutil.copy(REPOSITORY / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run(["git", "add", "--all"], check=True)
    named = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    subprocess.run(["git", *named, "commit", "--quiet", "-m", "state"], check=True)
    shown = printed("from pacer.cli import main; main()", encoding, "study", "show", "components")
    assert "## Component ablations" in shown and "?" in shown
