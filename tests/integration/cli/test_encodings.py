"""Text that a terminal cannot show does not end a command or a stage."""

from __future__ import annotations

import os
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
