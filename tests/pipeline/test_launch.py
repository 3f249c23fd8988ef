"""How stages are started on every GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCH = Path(__file__).resolve().parents[2] / "stages" / "launch.py"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("body", "code", "error"), [("", 0, ""), ("sys.exit('it failed')", 1, "it failed\n")])
def test_a_script_is_started_with_its_arguments_and_nothing_else_is_said(
    body: str, code: int, error: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nprint(sys.argv[1:])\n{body}\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ACCELERATE")}
    done = subprocess.run(
        [sys.executable, LAUNCH, script, "one", "--two"],
        capture_output=True,
        text=True,
        env=clean | {"HF_HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "['one', '--two']\n", error)
