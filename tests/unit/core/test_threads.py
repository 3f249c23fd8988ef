"""How OpenMP's threads wait is said before torch is imported, and the user's own word counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pacer.core.machine import core_quota

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("script", sorted((ROOT / "stages").glob("*.py")), ids=lambda path: path.stem)
def test_no_stage_imports_torch_before_the_package(script: Path) -> None:
    lines = script.read_text(encoding="utf-8").splitlines()
    imported = [line.split()[1].split(".")[0] for line in lines if line.startswith(("import ", "from "))]
    of_torch = [place for place, name in enumerate(imported) if name in ("torch", "accelerate")]
    assert not of_torch or "pacer" in imported[: of_torch[0]]


#: What the user and a launcher have set, and what the stages take for the user's threads; OpenMP's own variable stays.
VARIABLES = [({}, ""), ({"OMP_NUM_THREADS": "3"}, "3"), ({"OMP_NUM_THREADS": "1", "PACER_THREADS": "3"}, "3")]


@pytest.mark.parametrize(("given", "threads"), [*VARIABLES, ({"OMP_NUM_THREADS": "1", "LOCAL_RANK": "0"}, "")])
def test_the_users_threads_are_read_before_a_launcher_sets_its_own(given: dict[str, str], threads: str) -> None:
    names = ("OMP_NUM_THREADS", "PACER_THREADS", "LOCAL_RANK")
    environment = {name: value for name, value in os.environ.items() if name not in names} | given
    code = "import os, pacer; print(pacer.THREADS, *map(os.environ.get, ('PACER_THREADS', 'OMP_NUM_THREADS')), sep='|')"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    before = given.get("OMP_NUM_THREADS")
    assert done.stdout.strip().split("|")[:2] == [threads, threads]
    assert done.stdout.strip().split("|")[2] == str(before) or core_quota() < (os.cpu_count() or 1)
