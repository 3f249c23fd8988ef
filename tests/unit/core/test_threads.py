"""How OpenMP's threads wait and CUDA allocates is said before torch is imported, and the user's own word counts."""

from __future__ import annotations

import json
import os
import shutil
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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        ({"PYTORCH_ALLOC_CONF": "backend:native"}, {"PYTORCH_ALLOC_CONF": "backend:native"}),
        ({"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}, {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}),
    ],
    ids=["neither", "one", "its older name"],
)
def test_segments_of_the_allocator_grow_unless_the_user_sets_it(given: dict, expected: dict, tmp_path: Path) -> None:
    (tmp_path / "stage.py").write_text(
        "import json, os\n"
        "def main():\n"
        "    print(json.dumps({name: value for name, value in os.environ.items() if 'ALLOC_CONF' in name}))\n"
    )
    shutil.copy(ROOT / "configs" / "phantom.yaml", tmp_path / "params.yaml")
    command = [sys.executable, str(ROOT / "stages" / "launch.py"), "stage.py"]
    usual = {name: value for name, value in os.environ.items() if "ALLOC_CONF" not in name}
    environment = usual | {"HF_HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)} | given
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == expected


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
