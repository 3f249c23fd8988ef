"""The polars lines that mend tables run, here with the installed polars."""

import json
import subprocess
import sys
from pathlib import Path

from pacer.tables.mending import NAMES, mending_line
from tests.support import mending
from tests.support.mending import CASES


def lines() -> dict[str, list[str]]:
    return {
        name: [mending_line(name, case.path, **case.values) for case in cases]
        for name, cases in CASES.items()
    }


def run_lines(python: str | Path, folder: Path) -> str:
    """Run the lines with an interpreter; return the version of polars."""
    (folder / "lines.json").write_text(json.dumps(lines()), encoding="utf-8")
    command = [str(python), mending.__file__, str(folder / "lines.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_each_line_mends_odd_input(tmp_path: Path) -> None:
    assert CASES.keys() == {*NAMES} and all(CASES.values())
    run_lines(sys.executable, tmp_path)
