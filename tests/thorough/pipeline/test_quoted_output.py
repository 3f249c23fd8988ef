"""The output that README.md quotes is what its commands print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT

BLOCK = re.compile(r"```bash\n([^`]*)```\n```text\n([^`]*)```", re.DOTALL)
QUOTED = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quoted") / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


def test_quoted_output(clone: Path) -> None:
    assert len(QUOTED) == 2
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for commands, quoted in QUOTED:
        run = ["bash", "-euo", "pipefail", "-c", commands]
        done = subprocess.run(run, cwd=clone, env=environment, capture_output=True, text=True, check=True)
        printed = iter([line.rstrip() for line in done.stdout.splitlines()])
        for line in quoted.splitlines():
            assert line.rstrip() in printed, (commands, line)
