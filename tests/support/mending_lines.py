"""The lines of pacer/tables/mending.yaml for the cases of mending.py, which run elsewhere."""

import json
import subprocess
from pathlib import Path

from pacer.tables.mending import mending_line
from tests.support import mending


def run_lines(python: str | Path, folder: Path) -> str:
    """Run the lines on their cases with the polars of an interpreter, and return its version;
    ``folder`` for the lines. Raises an AssertionError if a line fails."""
    lines = {
        name: [mending_line(name, case.path, **case.values) for case in cases]
        for name, cases in mending.CASES.items()
    }
    file = folder / "lines.json"
    file.write_text(json.dumps(lines), encoding="utf-8")
    done = subprocess.run(
        [str(python), mending.__file__, str(file)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
