"""How OpenMP's threads wait and CUDA allocates is said before torch is imported, and the user's own word counts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pacer.core.machine import core_quota
from tests.support.cases import listed_cases

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("script", sorted((ROOT / "stages").glob("*.py")), ids=lambda path: path.stem)
def test_no_stage_imports_torch_before_the_package(script: Path) -> None:
    lines = script.read_text(encoding="utf-8").splitlines()
    imported = [line.split()[1].split(".")[0] for line in lines if line.startswith(("import ", "from "))]
    of_torch = [place for place, name in enumerate(imported) if name in ("torch", "accelerate")]
    assert not of_torch or "pacer" in imported[: of_torch[0]]


def printed(code: str, names: set[str], given: dict[str, str], folder: Path, *script: str) -> dict[str, str | None]:
    """The variables that a process prints, of which it gets only those of ``given``."""
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {"HF_HOME": str(folder), "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)} | given
    shown = f"print(__import__('json').dumps({{name: __import__('os').environ.get(name) for name in {sorted(names)}}}))"
    (folder / "stage.py").write_text(code.replace("PRINT", shown))
    command = [sys.executable, *script, "stage.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(("given", "expected"), listed_cases(__file__, "allocators"))
def test_segments_of_the_allocator_grow_unless_the_user_sets_it(given: dict, expected: dict, tmp_path: Path) -> None:
    shutil.copy(ROOT / "configs" / "phantom.yaml", tmp_path / "params.yaml")
    launch = str(ROOT / "stages" / "launch.py")
    assert printed("def main():\n    PRINT\n", {*expected}, given, tmp_path, launch) == expected


@pytest.mark.parametrize(("given", "expected"), listed_cases(__file__, "threads"))
def test_the_users_threads_are_read_before_a_launcher_sets_its_own(given: dict, expected: dict, tmp_path: Path) -> None:
    """How long threads spin is said before torch is imported; OpenMP's own variable stays, unless a quota counts."""
    names = {"OMP_NUM_THREADS", "PACER_THREADS", "LOCAL_RANK", "GOMP_SPINCOUNT"}
    found = printed("import sys, pacer\nassert 'torch' not in sys.modules\nPRINT\n", names, given, tmp_path)
    assert {name: found[name] for name in expected} == expected
    assert found["OMP_NUM_THREADS"] == given.get("OMP_NUM_THREADS") or core_quota() < (os.cpu_count() or 1)
