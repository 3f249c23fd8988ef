"""A path that does not exist is refused at once: before torch is imported, which takes seconds."""

import subprocess
import sys
from pathlib import Path

from tests.support.cases import listed_cases
from tests.support.cli import REPOSITORY

COMMANDS = [case.values[0] for case in listed_cases(__file__, "commands")]
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
