"""A path that does not exist is refused at once: before torch is imported, which takes seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.cli import REPOSITORY

COMMANDS = (
    "audit --params absent.yaml",
    "compare absent metrics",
    "compare configs absent",
    "decode --records absent.parquet --out predictions",
    "decode --records params.yaml --model absent --out predictions",
    "decode --records params.yaml --model configs --backbones absent --out predictions",
    "doctor --params absent.yaml",
    "import-llm-rg4 absent.pth --out llm",
    "score --references absent.csv --hypotheses reports.csv --out scores",
    "score --references params.yaml --hypotheses absent.csv --out scores",
    "score --references params.yaml --hypotheses params.yaml --chexbert absent --out scores",
    "score --records absent.parquet --predictions predictions --out scores",
    "score --records params.yaml --predictions absent --out scores",
    "show 50000000 --systems A=absent B=configs",
    "use absent.yaml",
)
RUN_ALL = """
import sys
from pacer.cli import main
for command in sys.argv[1:]:
    sys.argv = ["pacer", *command.split()]
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 1, command
    assert not {"torch", "sklearn"} & sys.modules.keys(), command
"""


def test_a_wrong_path_is_refused_before_anything_heavy_is_imported(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL, *COMMANDS],
        env={"PYTHONPATH": str(REPOSITORY), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(COMMANDS)
    for command, line in zip(COMMANDS, lines, strict=True):
        assert "does not exist" in line and "absent" in line, (command, line)
